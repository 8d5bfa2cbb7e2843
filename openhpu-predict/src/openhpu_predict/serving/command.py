"""`openhpu serve-sim`: vLLM's Gaudi plugin serves requests on a virtual clock."""

import argparse
import dataclasses
import functools
import json
import math
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openhpu.settings.output import write_output
from openhpu_predict.devices import load
from openhpu_predict.errors import PredictError
from openhpu_predict.serving import traffic
from openhpu_predict.serving.settings import Settings

_SEED = "0"


def main(arguments: Sequence[str]) -> int:
    """Run the subcommand. Returns the exit code: 2 for a wrong request, the script's if it fails."""
    if os.environ.get("PYTHONHASHSEED") != _SEED:  # the order of a set of names, and hashes of blocks
        os.environ["PYTHONHASHSEED"] = _SEED
        if not any(one.partition("=")[0] == "--script" for one in arguments):  # an LLM divides by its bar's time
            os.environ.setdefault("TQDM_DISABLE", "1")
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "openhpu", "serve-sim", *arguments])
    options, rest = _parser().parse_known_args(arguments)
    try:
        return _run(options, rest)
    except PredictError as error:
        print(f"openhpu serve-sim: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="openhpu serve-sim",
        usage="openhpu serve-sim --model CONFIG (--trace FILE | --num-prompts N) [OPTION ...] [vLLM'S OPTION ...]\n"
        "       openhpu serve-sim [OPTION ...] --script SCRIPT [ARG ...]",
        description="Serve requests with vLLM and its Gaudi plugin on a virtual clock: no Gaudi, no weights.",
        epilog="Other options are vLLM's, as of `vllm serve`. Names and meanings of those for traffic are those of "
        "`vllm bench serve`.",
        allow_abbrev=False,
    )
    parser.add_argument("--device", default="gaudi3", help="gaudi2, gaudi3 (default) or a TOML file")
    parser.add_argument("--model", metavar="CONFIG", help="a folder with config.json, or that file")
    parser.add_argument("--script", nargs=argparse.REMAINDER, help="a script that makes an LLM, with its arguments")
    parser.add_argument("--json", metavar="FILE", help="write the answers as JSON")
    parser.add_argument("--steps", metavar="FILE", help="write each step as a line of JSON")
    files = parser.add_argument_group("traffic of a file")
    files.add_argument("--trace", metavar="FILE", help="JSONL, .csv of BurstGPT, .json of vllm bench serve")
    files.add_argument("--timed-trace-chunk-hash-size", type=int, default=16, metavar="N", help="tokens of a block")
    files.add_argument("--timed-trace-sec-multiplier", type=float, default=1.0, metavar="X", help="of times; 0.001: ms")
    _add_plans(parser.add_argument_group("plans"))
    checks = parser.add_argument_group("guards")
    checks.add_argument("--guards", action="store_true", help="serve again with small real weights: which guards fail?")
    checks.add_argument("--guards-seconds", type=float, default=1800.0, metavar="S", help="the most that it may take")
    _add_made_traffic(parser.add_argument_group("traffic that is made"))
    parser.add_argument("--max-concurrency", type=int, default=0, metavar="N", help="requests on their way at once")
    stated = parser.add_argument_group("stated parameters")
    stated.add_argument("--host-step-ms", type=float, metavar="MS", help="the host's share of a step")
    stated.add_argument("--host-request-us", type=float, metavar="US", help="its share for each request of a step")
    stated.add_argument("--compile-ms-per-op", type=float, metavar="MS", help="time to compile an operator of a graph")
    stated.add_argument("--http-ms", type=float, metavar="MS", help="a server's share of each request's time")
    return parser


def _add_plans(plans: argparse._ArgumentGroup) -> None:
    plans.add_argument("--plan", metavar="LIMITS", help="ttft=500ms,tpot=40ms,share=90%%: what serves the traffic so?")
    plans.add_argument("--plan-cards", default="1,2,4,8", metavar="N,...", help="tensor parallel sizes to try")
    plans.add_argument("--plan-max-num-seqs", default="16,32,64,128,256", metavar="N,...", help="batches to try")
    plans.add_argument("--plan-buckets", default="exp,lin", metavar="NAME,...", help="exp, lin, pad: the plugin's")
    plans.add_argument("--plan-jobs", type=int, default=0, metavar="N", help="candidates at once; default: cores")
    plans.add_argument("--bucket-list", metavar="FILE", help="write the buckets that the traffic needs")
    plans.add_argument("--bucket-share", type=float, default=0.995, metavar="X", help="of the calls, 0 to 1")


def _add_made_traffic(made: argparse._ArgumentGroup) -> None:
    made.add_argument("--num-prompts", type=int, metavar="N")
    made.add_argument("--random-input-len", type=int, default=1024, metavar="N")
    made.add_argument("--random-output-len", type=int, default=128, metavar="N")
    made.add_argument("--random-range-ratio", type=float, default=0.0, metavar="X", help="lengths vary by this share")
    made.add_argument("--random-prefix-len", type=int, default=0, metavar="N", help="tokens that all prompts share")
    made.add_argument("--request-rate", type=float, default=math.inf, metavar="X", help="requests/s; default: at once")
    made.add_argument("--burstiness", type=float, default=1.0, metavar="X", help="1: Poisson; less: bursts")
    made.add_argument("--traffic-seed", type=int, default=0, metavar="N")


def _settings(options: argparse.Namespace) -> Settings:
    changed = {}
    for name, value, unit in (
        ("host_step", options.host_step_ms, 1e3),
        ("host_request", options.host_request_us, 1e6),
        ("http", options.http_ms, 1e3),
    ):
        if value is not None:
            if not 0 <= value < math.inf:
                raise PredictError(f"--{name.replace('_', '-')} is {value}; expected a number of at least 0")
            changed[name] = value / unit
    return Settings.stated(**changed)


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    device, settings = load(options.device), _settings(options)
    if (each := options.compile_ms_per_op) is not None:
        if not 0 < each < math.inf:
            raise PredictError(f"--compile-ms-per-op is {each}; expected a number above 0")
        device = dataclasses.replace(device, compile_per_operator=each / 1e3)
    if not 0 < options.bucket_share <= 1:
        raise PredictError(f"--bucket-share is {options.bucket_share}; expected a share above 0 and up to 1")
    for name in ("json", "steps", "bucket-list"):
        path = getattr(options, name.replace("-", "_"))
        if path and not Path(path).parent.is_dir():
            raise PredictError(f"--{name}: there is no folder {str(Path(path).parent)!r} to write into")
    if options.max_concurrency < 0:
        raise PredictError(f"--max-concurrency is {options.max_concurrency}; expected 0 (no limit) or more")
    if options.script:
        return _script(options, device, settings)
    folder = _folder(options.model)
    requests, source = _traffic(options, folder)
    block = options.random_prefix_len or options.timed_trace_chunk_hash_size
    if options.plan:
        return _plan(options, rest, device, settings, folder, requests, source, block)
    from openhpu_predict.serving import engine as engines

    border = engines.begin(device, settings)
    engine = engines.make(border, str(folder), rest)
    engines.serve(border, engine, requests, block, options.max_concurrency)
    if options.guards:
        _guards(options, rest, border, folder, requests, block)
    return _answer(options, border, source, all(not one.tokens and not one.blocks for one in requests), 0)


def _folder(model: str | None) -> Path:
    """The folder with a model's config.json."""
    if not model:
        raise PredictError("--model is missing; expected a folder with config.json, or a script: --script")
    path = Path(model)
    folder = path.parent if path.name == "config.json" else path
    if not (folder / "config.json").is_file():
        raise PredictError(f"there is no {folder / 'config.json'}; give a model's folder; its weights are not needed")
    return folder.resolve()


def _traffic(options: argparse.Namespace, folder: Path) -> tuple[list[traffic.Request], str]:
    if (options.trace is None) == (options.num_prompts is None):
        raise PredictError("give either --trace or --num-prompts")
    if options.trace:
        block, factor = options.timed_trace_chunk_hash_size, options.timed_trace_sec_multiplier
        if block < 1 or not 0 < factor < math.inf:
            raise PredictError(f"blocks of {block} tokens and times by {factor:g}; expected numbers above 0")
        found = traffic.read(Path(options.trace), block, factor, _tokenizer(folder))
        return found, f"trace {Path(options.trace).name}"
    found = traffic.generate(
        options.num_prompts,
        options.random_input_len,
        options.random_output_len,
        options.request_rate,
        options.burstiness,
        options.random_range_ratio,
        options.traffic_seed,
        options.random_prefix_len,
    )
    if options.max_concurrency:
        return found, f"made, {options.max_concurrency} at once, seed {options.traffic_seed}"
    rate = "at once" if math.isinf(options.request_rate) else f"{options.request_rate:g} a second"
    return found, f"made, {rate}, burstiness {options.burstiness:g}, seed {options.traffic_seed}"


def _tokenizer(folder: Path) -> Callable[[str], list[int]] | None:
    """Makes tokens of a text, if the model's folder has a tokenizer."""
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
        return None

    @functools.cache
    def loaded() -> Any:
        import transformers

        return transformers.AutoTokenizer.from_pretrained(folder)

    return lambda text: list(loaded()(text)["input_ids"])


def _plan(
    options: argparse.Namespace,
    rest: list[str],
    device: Any,
    settings: Settings,
    folder: Path,
    requests: list[traffic.Request],
    source: str,
    block: int,
) -> int:
    """Serve the traffic with each candidate, and print the table."""
    from openhpu_predict.serving import plan, planning

    if options.steps or options.bucket_list:
        raise PredictError("--steps and --bucket-list belong to one run, and --plan makes many; leave them out")
    if options.plan_jobs < 0:
        raise PredictError(f"--plan-jobs is {options.plan_jobs}; expected 1 or more, or 0 for the number of cores")
    wanted = plan.limits(options.plan)
    tried = plan.candidates(options.plan_cards, options.plan_max_num_seqs, options.plan_buckets, rest)
    work = planning.Work(device, settings, str(folder), rest, requests, source, block, options.max_concurrency)
    outcomes = planning.serve_all(work, tried, options.plan_jobs)
    found = plan.summary(outcomes, wanted, settings.errors, folder.name, device.name, source)
    write_output("openhpu serve-sim", plan.text(found), 0)
    return _written(options.json, json.dumps(found, indent=1) + "\n")


def _guards(
    options: argparse.Namespace,
    rest: list[str],
    border: Any,
    folder: Path,
    requests: list[traffic.Request],
    block: int,
) -> None:
    """Serve the traffic again, with small real weights, and note the guards that fail."""
    from openhpu_predict.serving import guards, real
    from openhpu_predict.serving.prices import REGIONS

    if border.prices.how != REGIONS or border.cards.count > 1:
        raise PredictError(
            f"--guards is of torch.compile on one card, and this run is {border.prices.how} on {border.cards.count}; "
            "leave --enforce-eager, PT_HPU_LAZY_MODE=1 and --tensor-parallel-size out"
        )
    job = guards.Job(
        border.prices.device.name,
        border.settings,
        "",
        rest,
        guards.blocks(border.engine.vllm_config, requests),
        requests,
        block,
        options.max_concurrency,
        real.given(border.prices.known),
    )
    config = json.loads((folder / "config.json").read_text())
    border.log.guards = guards.run(job, config, options.guards_seconds)


def _written(path: str | None, text: str) -> int:
    """The exit code."""
    try:
        if path:
            Path(path).write_text(text)
    except OSError as error:
        print(f"openhpu serve-sim: {error.filename} can't be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _script(options: argparse.Namespace, device: Any, settings: Settings) -> int:
    """Run a script whose LLM is simulated."""
    script, *arguments = options.script
    if not Path(script).is_file():
        raise PredictError(f"there is no script {script!r}; expected a file")
    from openhpu_predict.serving import engine as engines

    border = engines.begin(device, settings)
    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).resolve().parent)
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    if border.engine is None:
        raise PredictError(f"{script} made no LLM in this process")
    return _answer(options, border, Path(script).name, False, code)


def _answer(options: argparse.Namespace, border: Any, source: str, lengths_only: bool, code: int) -> int:
    from openhpu_predict.serving import answers, buckets, section

    found = answers.summary(border, source, lengths_only)
    section.add(found)
    write_output("openhpu serve-sim", answers.text(found), code)
    texts = [(options.json, json.dumps(found, indent=1) + "\n")]
    if options.steps:
        texts.append((options.steps, "".join(f"{json.dumps(one)}\n" for one in answers.steps(border))))
    if options.bucket_list:
        text, sentence = buckets.listed(found, border.log.used, options.bucket_share)
        texts.append((options.bucket_list, text))
        print(f"{sentence}: {options.bucket_list}; the plugin reads it with VLLM_BUCKETING_FROM_FILE")
    return max([code, *(_written(path, text) for path, text in texts)])
