"""Traffic: requests with their arrivals, from files and from generators with a seed.

A request has lengths alone, or the ids of its tokens, or the ids of the blocks that its prompt consists of. With
lengths alone no two prompts begin alike, so that the prefix cache hits nothing.
"""

import csv
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openhpu_predict.errors import PredictError

_MOST_TOKENS = 10_000_000  # of a request; more is a wrong unit
_FIRST_TOKEN = 10  # ids below this one are often special


@dataclass(slots=True)
class Request:
    """`arrival` in seconds from the begin; `tokens` of the prompt; `output` tokens to generate."""

    arrival: float
    length: int
    output: int
    tokens: list[int] = field(default_factory=list)  # of the prompt; empty: only its length is known
    blocks: list[Any] = field(default_factory=list)  # ids of its blocks

    def prompt(self, number: int, block: int, vocabulary: int) -> list[int]:
        """The ids of its tokens, for the request of that number; `block`: tokens of a block."""
        if self.tokens:
            return self.tokens
        if not self.blocks:
            return _filled(_digits(number, vocabulary), self.length, vocabulary)
        found: list[int] = []
        for one in self.blocks:
            found += _filled(_digits(one, vocabulary), min(block, self.length - len(found)), vocabulary)
        return found + _filled(_digits(number, vocabulary), self.length - len(found), vocabulary)


def _digits(number: int, vocabulary: int) -> list[int]:
    """A number as tokens: different numbers differ in the first tokens of a prompt."""
    base = vocabulary - _FIRST_TOKEN
    found: list[int] = []
    while number or not found:
        number, digit = divmod(number, base)
        found.append(_FIRST_TOKEN + digit)
    return [_FIRST_TOKEN + len(found) % base, *found]


def _filled(head: list[int], length: int, vocabulary: int) -> list[int]:
    """`length` tokens that begin with `head`."""
    return [*head, *[vocabulary - 1] * (length - len(head))][: max(length, 0)]


# Files.


def read(
    path: Path,
    block: int = 16,
    multiplier: float = 1.0,
    tokenize: Callable[[str], list[int]] | None = None,
) -> list[Request]:
    """The requests of a file, by arrival. Raises PredictError with the number of a line that is wrong.

    JSONL, a request a line: `arrival` (or `timestamp`) in seconds, and `input` (or `input_length`), `output` (or
    `output_length`, `output_tokens`) as numbers of tokens; in the place of `input` the tokens as `prompt_token_ids`, or
    a text as `prompt`; beside it the ids of the prompt's blocks of `block` tokens as `hash_ids`. This takes vLLM's
    formats custom and timed_trace. A .csv is BurstGPT's. A .json is what `vllm bench serve --save-detailed` writes.
    `multiplier` of times: 0.001 for milliseconds. `tokenize` makes the tokens of a text.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise PredictError(f"{path} can't be read: {why}") from None
    if path.suffix == ".csv":
        found = _burst_gpt(path, text)
    elif path.suffix == ".json":
        found = _saved(path, text)
    else:
        found = [_request(row, f"{path}:{number}", tokenize) for number, row in _rows(path, text)]
        _check_blocks(path, found, block)
    if not found:
        raise PredictError(f"{path} has no request; expected at least one")
    if multiplier != 1.0:
        for one in found:
            one.arrival *= multiplier
    return sorted(found, key=lambda one: one.arrival)


def _rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise PredictError(f"{path}:{number} is not JSON: {error.msg} at column {error.colno}") from None
        if not isinstance(row, dict):
            raise PredictError(
                f"{path}:{number} is {type(row).__name__}; expected an object with the keys of a request"
            )
        yield number, row


def _number(row: dict[str, Any], names: Sequence[str], where: str, least: float, whole: bool = True) -> Any:
    """The number that has one of these names. Raises PredictError."""
    name = next((one for one in names if one in row), None)
    if name is None:
        raise PredictError(f"{where} has none of {', '.join(names)}; it has: {', '.join(map(str, row)) or 'nothing'}")
    value = row[name]
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value < math.inf:
        kind = "a whole number" if whole else "a number"
        raise PredictError(f"{where}: {name} is {value!r}; expected {kind} of at least {least:g}")
    if whole and value > _MOST_TOKENS:
        raise PredictError(f"{where}: {name} is {value:,} tokens; expected at most {_MOST_TOKENS:,}")
    return value


def _request(row: dict[str, Any], where: str, tokenize: Callable[[str], list[int]] | None) -> Request:
    arrival = 0.0
    if "arrival" in row or "timestamp" in row:
        arrival = float(_number(row, ("arrival", "timestamp"), where, 0, whole=False))
    output = _number(row, ("output", "output_length", "output_tokens"), where, 1)
    tokens = row.get("prompt_token_ids", [])
    if "prompt" in row and not tokens:
        tokens = row["prompt"]
        if isinstance(tokens, str):
            if tokenize is None:
                raise PredictError(
                    f"{where}: prompt is a text, and the model's folder has no tokenizer; give "
                    "prompt_token_ids or input"
                )
            tokens = tokenize(tokens)
    if not isinstance(tokens, list) or not all(type(one) is int and one >= 0 for one in tokens):
        raise PredictError(
            f"{where}: the tokens of the prompt are {str(tokens)[:40]}; expected a list of whole numbers"
        )
    if tokens:
        return Request(arrival, len(tokens), output, tokens)
    length = _number(row, ("input", "input_length"), where, 1)
    blocks = row.get("hash_ids", row.get("block_hashes", []))
    if not isinstance(blocks, list) or not all(type(one) is int and one >= 0 for one in blocks):
        raise PredictError(
            f"{where}: hash_ids is {str(blocks)[:40]}; expected a list of whole numbers, one for a block"
        )
    return Request(arrival, length, output, blocks=blocks)


def _check_blocks(path: Path, requests: list[Request], block: int) -> None:
    for one in requests:
        if one.blocks and not (len(one.blocks) - 1) * block < one.length <= len(one.blocks) * block + block - 1:
            raise PredictError(
                f"{path}: a prompt of {one.length} tokens has {len(one.blocks)} hash_ids, which are not blocks of "
                f"{block} tokens; give their size: --timed-trace-chunk-hash-size"
            )


def _burst_gpt(path: Path, text: str) -> list[Request]:
    """As vLLM reads it: rows of the model GPT-4 that have an answer."""
    found = []
    rows = csv.DictReader(text.splitlines())
    for number, row in enumerate(rows, 2):
        try:
            if row["Model"] != "GPT-4" or int(row["Response tokens"]) < 1:
                continue
            one = Request(float(row["Timestamp"]), int(row["Request tokens"]), int(row["Response tokens"]))
        except KeyError as error:
            raise PredictError(f"{path} has no column {error}; expected BurstGPT's: Timestamp, Model, ...") from None
        except (TypeError, ValueError) as error:
            raise PredictError(f"{path}:{number}: {error}; expected numbers of tokens and a time in seconds") from None
        if not 0 <= one.arrival < math.inf or not 0 < one.length <= _MOST_TOKENS or one.output > _MOST_TOKENS:
            raise PredictError(
                f"{path}:{number}: {one.arrival:g} s, {one.length} and {one.output} tokens are out of range"
            )
        found.append(one)
    return found


def _saved(path: Path, text: str) -> list[Request]:
    try:
        saved = json.loads(text)
    except json.JSONDecodeError as error:
        raise PredictError(f"{path}:{error.lineno} is not JSON: {error.msg}") from None
    saved = saved if isinstance(saved, dict) else {}
    lengths, outputs, begins = (saved.get(name) for name in ("input_lens", "output_lens", "start_times"))
    if not isinstance(lengths, list) or not isinstance(outputs, list) or len(lengths) != len(outputs):
        raise PredictError(
            f"{path} has no lists input_lens and output_lens of one length; expected what `vllm bench serve "
            "--save-result --save-detailed` writes"
        )
    if not isinstance(begins, list) or len(begins) != len(lengths):
        begins = [0.0] * len(lengths)
    found = []
    for number, (arrival, length, output) in enumerate(zip(begins, lengths, outputs, strict=True)):
        row = {"arrival": arrival, "input": length, "output": max(output, 1) if isinstance(output, int) else output}
        found.append(_request(row, f"{path}, request {number}", None))
    first = min((one.arrival for one in found), default=0.0)
    for one in found:
        one.arrival -= first
    return found


# Generators.


def generate(
    number: int,
    length: int,
    output: int,
    rate: float = math.inf,
    burstiness: float = 1.0,
    spread: float = 0.0,
    seed: int = 0,
    prefix: int = 0,
) -> list[Request]:
    """Random requests: `number` of them, of about `length` and `output` tokens, `rate` of them a second.

    Times between arrivals have a Gamma distribution, as in `vllm bench serve`: `burstiness` 1 is a Poisson process,
    less comes in bursts. With an infinite rate all arrive at once. Lengths vary evenly by the share `spread`, 0 to 1.
    The first `prefix` tokens of all prompts are the same. Raises PredictError.
    """
    for name, value, good, expected in (
        ("--num-prompts", number, number >= 1, "1 or more"),
        ("--random-input-len", length, length >= 1, "1 or more"),
        ("--random-output-len", output, output >= 1, "1 or more"),
        ("--request-rate", rate, rate > 0, "above 0"),
        ("--burstiness", burstiness, 0 < burstiness < math.inf, "above 0"),
        ("--random-range-ratio", spread, 0 <= spread < 1, "0 or more, and below 1"),
        ("--random-prefix-len", prefix, 0 <= prefix <= length, "from 0 to --random-input-len"),
    ):
        if not good:
            raise PredictError(f"{name} is {value:g}; expected {expected}")
    lots = random.Random(seed)
    arrival, found = 0.0, []
    for i in range(number):
        sizes = [
            max(round(size * (1 + spread * (2 * lots.random() - 1))), 1) if spread else size
            for size in (length, output)
        ]
        blocks = [number, i] if prefix else []
        found.append(Request(arrival, max(sizes[0], prefix + bool(prefix)), sizes[1], blocks=blocks))
        if rate < math.inf:
            arrival += lots.gammavariate(burstiness, 1 / (rate * burstiness))
    return found
