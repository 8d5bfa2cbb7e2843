"""Questions of users, answered by `openhpu serve-sim`: `python -m ecosystem.vllm.questions --page FILE`.

FILE is docs/serving-questions.md. It needs the lane's environment. Each question of questions.toml has its answer
between marks of the page: the command, and what it printed.
"""

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from commands import ROOT, child
from ecosystem.vllm import marks
from ecosystem.vllm.served import LLAMA

_S = 900.0  # for a question


def answer(question: dict[str, Any]) -> str:
    """The command and its output as Markdown. Raises RuntimeError."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / question["model"]
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(LLAMA | question.get("config", {})))
        words = ["serve-sim", *shlex.split(question["options"])]
        environment = question.get("environment", {})
        command = [sys.executable, "-m", "openhpu", *words, f"--model={folder}"]
        if name := question.get("file"):
            command.append(f"--bucket-list={Path(place) / name}")
        ended = child.run(command, seconds=_S, cwd=ROOT, env=os.environ | environment).checked(
            "serve-sim", RuntimeError
        )
        said = ended.output.replace(f"{place}/", "")
        kept = [line for line in said.splitlines() if re.search(question["lines"], line)]
        parts = [*(f"{key}={value}" for key, value in environment.items()), "openhpu", *words, f"--model={folder.name}"]
        blocks = [
            f"```sh\n{shlex.join(parts)}{f' --bucket-list={name}' if name else ''}\n```",
            "```\n" + "\n".join(kept) + "\n```",
        ]
        if name:
            blocks.append("```\n" + (Path(place) / name).read_text().rstrip() + "\n```")
    return "\n\n".join(blocks)


def questions() -> list[dict[str, Any]]:
    """Those of questions.toml."""
    found: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "questions.toml").read_text())["question"]
    return found


def around(question: dict[str, Any]) -> tuple[str, str]:
    """The marks of its answer in the page."""
    return marks.marks(question["name"], "python -m ecosystem.vllm.questions --page")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ecosystem.vllm.questions", description=__doc__)
    parser.add_argument("--page", type=Path, help="write the answers into this document")
    parser.add_argument("--only", default="", help="the question of this name")
    options = parser.parse_args(arguments)
    for question in questions():
        if options.only not in ("", question["name"]):
            continue
        text = answer(question)
        print(text, flush=True)
        if options.page:
            marks.write(options.page, around(question), text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
