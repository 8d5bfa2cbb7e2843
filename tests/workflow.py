"""The workflows of docs/ci.md: their steps, read from the file."""

import re
from typing import NamedTuple

from commands import ROOT

DOCUMENT = ROOT / "docs" / "ci.md"
MOST_LINES = 14
_ACTIONS = ("checkout", "cache", "setup-python")  # whose effect a test has by other means


class Step(NamedTuple):
    """`command`: of bash; None for an action, whose `path` is the folder that it restores, if it restores one."""

    command: str | None
    action: str = ""
    path: str = ""


def steps(text: str, number: int = 0) -> list[Step]:
    """The steps of a workflow: 0 is any library's, 1 vLLM's plugin's. ValueError if it is longer than MOST_LINES."""
    workflows = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    if len(workflows) != 2:
        raise ValueError(f"expected two yaml blocks, got {len(workflows)}")
    lines = workflows[number].rstrip().splitlines()
    if len(lines) > MOST_LINES:
        raise ValueError(f"expected a workflow of at most {MOST_LINES} lines, got {len(lines)}")
    found: list[Step] = []
    for line in lines[[line.strip() for line in lines].index("steps:") + 1 :]:
        if run := re.fullmatch(r" +- run: ([^|>].*)", line):
            if "${{" in run[1]:
                raise ValueError(f"expected a command without expressions of GitHub, got {line!r}")
            found.append(Step(run[1]))
        elif (uses := re.fullmatch(r" +- uses: actions/([\w-]+)@v\d+", line)) and uses[1] in _ACTIONS:
            found.append(Step(None, uses[1]))
        elif found and found[-1].action and (given := re.fullmatch(r" +with: \{(.*)\}", line)):
            path = re.search(r"\bpath: ([^, }]+)", given[1])
            found[-1] = found[-1]._replace(path=path[1] if path else "")
        else:
            raise ValueError(f"expected a step with a command of one line, or one of {_ACTIONS}, got {line!r}")
    return found
