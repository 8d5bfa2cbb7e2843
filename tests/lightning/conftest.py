"""Lightning's own warnings are not ours; every other warning is an error."""

import os

import pytest
import torch

from tests.processes import clean_environment, run_file

# Recipes have tests of their own.
os.environ.setdefault("OPENHPU_COMPILE", "off")
# Jobs of two processes: once is enough.
collect_ignore = ["test_tenants.py"] if os.environ.get("PT_HPU_LAZY_MODE") == "1" else []
MODE = {name: os.environ[name] for name in ("PT_HPU_LAZY_MODE", "OPENHPU_COMPILE") if name in os.environ}

LIGHTNINGS = (
    "ignore:.*LeafSpec.*is deprecated",  # Lightning's use of torch.utils._pytree
    "ignore:.*does not have many workers",
    "ignore:.*The number of training batches.*is smaller than the logging interval",
    "ignore:.*it is recommended to use `Trainer\\(devices=1",
    "ignore:.*Precision .* is not supported by the model summary",
    "ignore:.*Detected call of `lr_scheduler.step\\(\\)` before",
    "ignore:.*exists and is not empty",
    "ignore:.*`DeepSpeedPrecisionPlugin` is deprecated",
    "ignore:.*callbacks used to create the checkpoint need to be provided",
    "ignore:.*HPU available but not used",
    "ignore:.*You defined a `validation_step` but have no `val_dataloader`",
    "ignore:.*Accessing the 'model_fields' attribute on the instance",  # DeepSpeed 0.16's
    "ignore:.*`torch.jit.script` is deprecated",  # DeepSpeed's import
    "ignore:.*`tensorboardX` has been removed as a dependency",
)


def pytest_collection_modifyitems(items):
    for item in items:
        for warning in LIGHTNINGS:
            item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(autouse=True)
def clean_device():
    """An error that a test left on the device belongs to that test."""
    yield
    torch.hpu.synchronize()


def environment_of(folder, **variables):
    """A process's environment, with the mode of these tests."""
    return clean_environment(folder, **MODE | variables)


@pytest.fixture
def script(tmp_path):
    """Run a Python file in a process of its own; its Result. A launcher of Lightning's runs the file again."""

    def run(code, fails=False):
        return run_file(code, tmp_path, environment_of(tmp_path), fails)

    return run
