"""`vllm serve` on a tiny model, as a child process that ends with its test."""

import contextlib
import http.client
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from commands import ROOT, child, free_port, supervisor

VLLM = [sys.executable, "-m", "vllm.entrypoints.cli.main"]
START_S = 400.0
_ANSWER_S = 120.0
_LOOK_S = 1.0


class Server:
    """A server that answers."""

    def __init__(self, process: child.Child, folder: Path, port: int) -> None:
        self.process = process
        self.folder = folder
        self.port = port

    @contextlib.contextmanager
    def answer(self, path: str, **request: Any) -> Iterator[http.client.HTTPResponse]:
        """The answer to a request, on a connection of its own."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_S)) as connection:
            body = json.dumps({"model": str(self.folder), **request}) if request else None
            connection.request("POST" if request else "GET", path, body, {"Content-Type": "application/json"})
            yield connection.getresponse()

    def get(self, path: str) -> int:
        """The status of an answer; 0 if there is none."""
        with contextlib.suppress(OSError, http.client.HTTPException), self.answer(path) as answer:
            return answer.status
        return 0

    def complete(self, prompt: str | list[int], tokens: int, **more: Any) -> tuple[int, dict[str, Any]]:
        """The status and the answer to a request for the likeliest `tokens`."""
        request = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}
        with self.answer("/v1/completions", return_token_ids=True, **request) as answer:
            return answer.status, json.loads(answer.read())

    def bench(self, folder: Path, prompt: int = 32, tokens: int = 16) -> child.Ended:
        """`vllm bench serve`: 32 requests of `prompt` tokens for `tokens` more each."""
        words = [
            *VLLM,
            "bench",
            "serve",
            "--backend",
            "openai",
            "--base-url",
            f"http://127.0.0.1:{self.port}",
            "--model",
            str(folder),
            "--dataset-name",
            "random",
            "--random-input-len",
            f"{prompt}",
            "--random-output-len",
            f"{tokens}",
            "--num-prompts",
            "32",
            "--ignore-eos",
        ]
        return child.run(words, seconds=300, cwd=ROOT).checked("vllm bench serve")


def command(folder: Path, port: int, *options: str) -> list[str]:
    """`vllm serve`, for at most 512 tokens a request and 4 requests at a time."""
    least = ["--max-model-len", "512", "--max-num-seqs", "4", "--dtype", "bfloat16"]
    return [*VLLM, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port), *least, *options]


def environment(**more: str) -> dict[str, str]:
    """The environment of a server: no warm-up unless `more` says so; one owner for a module, as without tests."""
    return {**os.environ, "VLLM_SKIP_WARMUP": "true", "OPENHPU_MODULE_LOCKS": "1", **more}


@contextlib.contextmanager
def serving(folder: Path, *options: str, seconds: float, report: bool = False, **more: str) -> Iterator[Server]:
    """A server that has started, with `report` by `openhpu run`; stopped afterwards, with all of its processes."""
    port = free_port()
    words = command(folder, port, *options)
    if report:
        words[1:1] = ["-m", "openhpu", "run"]
    with child.start(words, seconds=seconds, env=environment(**more), cwd=ROOT) as process:
        server = Server(process, folder, port)
        end = time.monotonic() + START_S
        while server.get("/health") != 200:
            ended = process.poll(_LOOK_S)
            assert ended is None, f"vllm serve: {ended.how}\n{ended.tail}"
            assert time.monotonic() < end, f"vllm serve did not start in {START_S:.0f} s\n{process.printed()[-3000:]}"
        yield server


def children(pid: int) -> dict[int, str]:
    """The processes that descend from `pid`, with the beginnings of their command lines."""
    parents = {one: parent for one, (parent, _) in supervisor.processes().items()}
    found: dict[int, str] = {}
    while more := {one for one, of in parents.items() if (of == pid or of in found) and one not in found}:
        found |= {one: supervisor.name_of(one) for one in more}
    return found
