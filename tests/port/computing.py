"""What scripts compute on hpu, and what their ports do. Each prints it as JSON, last."""

import json
import re

import pytest

from openhpu_port import port, port_settings, to_device
from tests.processes import clean_environment, run_file

# As torchrun with one process sets them, but for the port, which no other test must have: 0 is any.
_ONE_RANK = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
_ON_CPU = {"DS_ACCELERATOR": "cpu"}
# Else DeepSpeed compiles it, which takes minutes.
_NO_SHARED_MEMORY = "import deepspeed\ndeepspeed.ops.__compatible_ops__['deepspeed_shm_comm'] = False\n"


def agree(script, target, expected, folder, listed=(), tolerance=1e-4):
    """The port of `script` for `target` lists these names, or else computes what is expected."""
    found = port(script.read_bytes(), to_device(target))
    assert {problem.what for problem in found.problems} == set(listed)
    if not listed:
        text = (_NO_SHARED_MEMORY if "import deepspeed" in script.read_text() else "") + found.text.decode()
        assert not re.search(r"^[^#\n]*(hpu|habana)", text, re.M)
        variables = _ON_CPU if target == "cpu" else {"PT_HPU_GPU_MIGRATION": "1"}
        computed = run(script, folder, text, to_device(target), **variables)
        assert computed == pytest.approx(expected, rel=tolerance, abs=tolerance)


def run(script, folder, text=None, table=None, **variables):
    """What a script prints, or its port `text`, with its settings."""
    for settings in script.parent.glob(f"{script.stem}.[jy]*"):
        found = port_settings(settings.read_bytes(), table) if table else None
        assert not (found and found.problems)
        (folder / settings.name).write_bytes(found.text if found else settings.read_bytes())
    environment = clean_environment(folder, **_ONE_RANK, **variables)
    return json.loads(run_file(text or script.read_text(), folder, environment, fails=False).out.splitlines()[-1])
