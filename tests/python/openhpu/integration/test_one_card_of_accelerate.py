"""accelerate's device maps keep a model on one card (patches._one_card_of_accelerate); accelerate's part is played by
a few lines, the library itself is tested in its lane (ecosystem/transformers/test_device_maps.py)."""

import pytest

from tests.processes import clean_environment, run_code

MODELING = """
def is_hpu_available():
    return AVAILABLE
AVAILABLE = True

def get_max_memory(max_memory=None):
    "Of each device."
    return max_memory or {0: 5, 1: 6, "cpu": 7}
"""


@pytest.fixture
def script(tmp_path):
    """Run code beside a package of accelerate's name."""
    folder = tmp_path / "accelerate" / "utils"
    folder.mkdir(parents=True)
    (folder / "modeling.py").write_text(MODELING)
    (folder / "__init__.py").write_text("from .modeling import get_max_memory\n")
    (folder.parent / "__init__.py").write_text("")

    def run(code):
        environment = clean_environment(tmp_path, OPENHPU_DEVICE_COUNT="2")
        return run_code(f"import sys; sys.path.insert(0, '.')\n{code}", tmp_path, environment, "error", False).out

    return run


def test_the_current_device_and_the_host_are_left(script):
    code = "import torch; from accelerate.utils import get_max_memory; print(get_max_memory(), get_max_memory.__doc__)"
    assert script(code) == "{0: 5, 'cpu': 7} Of each device."
    code = "import torch; from accelerate.utils import get_max_memory; torch.hpu.set_device(1); print(get_max_memory())"
    assert script(code) == "{1: 6, 'cpu': 7}"


def test_what_is_asked_for_stays(script):
    code = "import torch; from accelerate.utils import get_max_memory; print(get_max_memory({0: 1, 1: 2}))"
    assert script(code) == "{0: 1, 1: 2}"


def test_without_hpu(script):
    code = """if True:
    import torch
    from accelerate.utils import get_max_memory, modeling
    modeling.AVAILABLE = False
    print(get_max_memory())
    """
    assert script(code) == "{0: 5, 1: 6, 'cpu': 7}"
