"""Blocks of code of lightning-habana's advanced guide: as they stand there, and the diffs that make them run.

`blocks/NN-name.block` is the guide's, in its order; `NN-name.diff`, if there is one, begins with the reason.
"""

import re
from pathlib import Path

FOLDER = Path(__file__).parent / "blocks"
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def code(name):
    """The block, with its diff. Raises ValueError where the diff does not fit."""
    lines = (FOLDER / f"{name}.block").read_text().splitlines()
    diff = FOLDER / f"{name}.diff"
    if diff.exists():
        lines = patched(lines, diff.read_text().splitlines())
    return "\n".join(lines) + "\n"


def patched(lines, diff):
    """`lines` after a unified diff. Raises ValueError for a line that is not there."""
    start = diff.index("+++ runs") + 1
    if start < 3:
        raise ValueError("the diff has no reason")
    result, position = [], 0
    for line in diff[start:]:
        if hunk := _HUNK.match(line):
            begin = int(hunk[1]) - (hunk[2] != "0")
            result += lines[position:begin]
            position = begin
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            if lines[position] != line[1:]:
                raise ValueError(f"line {position + 1} is {lines[position]!r}, not {line[1:]!r}")
            if line.startswith(" "):
                result.append(lines[position])
            position += 1
    return result + lines[position:]


def run(name, smaller=(), **given):
    """The names that the block defines, with those that the guide takes for given.

    `smaller`: pairs of texts, of which the second takes the first one's place: for a job of fewer devices.
    """
    text = code(name)
    for large, small in smaller:
        if large not in text:
            raise ValueError(f"{name} has no {large!r}")
        text = text.replace(large, small)
    namespace = {"__name__": "guide", **given}
    exec(compile(text, f"{name}.block", "exec"), namespace)
    return namespace
