"""Blocks of code of lightning-habana's advanced guide: as they stand there, and the diffs that make them run.

`blocks/NN-name.block` is the guide's, in its order; `NN-name.diff`, if there is one, begins with the reason.
"""

import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent / "blocks"


def code(name):
    """The block, with its diff. Raises CalledProcessError where the diff does not fit."""
    block, diff = FOLDER / f"{name}.block", FOLDER / f"{name}.diff"
    if not diff.exists():
        return block.read_text()
    if diff.read_text().startswith("---"):
        raise ValueError("the diff has no reason")
    with tempfile.TemporaryDirectory() as folder:
        (patched := Path(folder, "runs")).write_text(block.read_text())
        subprocess.run(["git", "apply", "-p0", "--unidiff-zero", str(diff)], cwd=folder, check=True, timeout=60)
        return patched.read_text()


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
