"""What the commands print, where it can't be written."""

import os
import subprocess
import sys

import pytest

from tests.processes import clean_environment

COMMANDS = [  # its name, its arguments, and the script's exit code
    ("hl-smi", ("openhpu.observe.smi", "-L"), 0),
    ("openhpu env", ("openhpu", "env"), 0),
    ("hl-prof-config", ("openhpu.observe.profiler.config_cli", "--show"), 0),
    ("openhpu run", ("openhpu", "run", "--json", "script.py"), 0),
    ("openhpu run", ("openhpu", "run", "--json", "script.py"), 7),
]


@pytest.mark.parametrize("reader", ["a full disk", "none"])
@pytest.mark.parametrize(("name", "arguments", "code"), COMMANDS)
def test_an_output_that_cannot_be_written(tmp_path, name, arguments, code, reader):
    """One line and exit code 1; a reader that went away is no error. The script's exit code goes before."""
    (tmp_path / "script.py").write_text(f"raise SystemExit({code})")
    out = os.open("/dev/full", os.O_WRONLY)
    if reader == "none":
        read, out = os.pipe()
        os.close(read)
    environment = clean_environment(tmp_path, OPENHPU_SMI_FOLDER=str(tmp_path))
    command = [sys.executable, "-m", *arguments]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.PIPE, text=True, timeout=100
    )
    os.close(out)
    lines = [line for line in ended.stderr.splitlines() if name in line and "===" not in line]
    full = reader == "a full disk"
    assert lines == [f"{name}: the output can't be written: No space left on device"] * full
    assert "Traceback" not in ended.stderr
    assert ended.returncode == (code or int(full))
