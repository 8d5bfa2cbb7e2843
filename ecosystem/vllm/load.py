"""How long a large simulation takes, and who needs the time: `python -m ecosystem.vllm.load [REQUESTS]`.

It needs the lane's environment. It serves requests of 1,000 and 100 tokens with at most 128 sequences of Llama 3.1 8B.
A timer looks at the stack every few milliseconds: the time belongs to the innermost part of PARTS that is on it.
"""

import argparse
import collections
import json
import os
import resource
import signal
import sys
import tempfile
import time
import types
from pathlib import Path

from ecosystem.vllm.served import LLAMA

INPUT, OUTPUT = 1000, 100
OPTIONS = ["--max-num-seqs=128", "--max-model-len=2048"]
_EVERY_S = 0.005
# Parts of the path of a file. What none of them has, as PyTorch, counts for its caller.
PARTS = (
    ("serve-sim", "/openhpu_predict/"),
    ("plugin", "/vllm_gaudi/"),
    ("scheduler", "/vllm/v1/core/"),
    ("vLLM's engine", "/vllm/"),
)


class Shares:
    """Who is at work on the main thread, from `start` to `stop`."""

    def __init__(self) -> None:
        self.seen: collections.Counter[str] = collections.Counter()
        self.lines: collections.Counter[str] = collections.Counter()

    def start(self) -> None:
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, _EVERY_S, _EVERY_S)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _look(self, _signal: int, frame: types.FrameType | None) -> None:
        while frame is not None:
            file = frame.f_code.co_filename
            part = next((name for name, words in PARTS if words in file), "")
            if part:
                self.lines[f"{part}: {Path(file).name}:{frame.f_lineno} {frame.f_code.co_name}"] += 1
                self.seen[part] += 1
                return
            frame = frame.f_back
        self.seen["the rest"] += 1

    def __str__(self) -> str:
        whole = sum(self.seen.values()) or 1
        return ", ".join(f"{name} {count / whole:.0%}" for name, count in self.seen.most_common())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ecosystem.vllm.load", description=__doc__)
    parser.add_argument("requests", type=int, nargs="?", default=10_000)
    parser.add_argument("--lines", type=int, default=0, metavar="N", help="also the lines at which most time is spent")
    options = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "ecosystem.vllm.load", *arguments],
            os.environ | {"PYTHONHASHSEED": "0", "TQDM_DISABLE": "1"},
        )
    began = time.monotonic()
    from openhpu_predict.devices import load
    from openhpu_predict.serving import answers, engine as engines, traffic
    from openhpu_predict.serving.settings import Settings

    marks = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(LLAMA))
        border = engines.begin(load("gaudi2"), Settings.stated())
        marks.append(("imports", time.monotonic()))
        engine = engines.make(border, folder, OPTIONS)
        marks.append(("engine and warm-up", time.monotonic()))
        shares = Shares()
        shares.start()
        engines.serve(border, engine, traffic.generate(options.requests, INPUT, OUTPUT), 16)
        shares.stop()
        marks.append(("serving", time.monotonic()))
    found = answers.summary(border, "made", True)
    marks.append(("answers", time.monotonic()))
    starts = [began, *(moment for _, moment in marks)]
    parts = [f"{name} {moment - start:.0f}" for start, (name, moment) in zip(starts, marks, strict=False)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{found['requests']:,} requests of {INPUT:,} / {OUTPUT} tokens in {found['steps']:,} steps and "
        f"{found['prompt']['calls'] + found['decode']['calls']:,} calls: {marks[-1][1] - began:.0f} s "
        f"({', '.join(parts)} s), {peak:.1f} GiB at most"
    )
    print(f"serving: {shares}")
    for line, count in shares.lines.most_common(options.lines):
        print(f"  {count * 100 / max(sum(shares.seen.values()), 1):5.1f} %  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
