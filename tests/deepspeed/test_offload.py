"""What is kept in host memory or in files changes no number: optimizer, parameters, ZeRO-Infinity."""

import functools
import json
import os
import shutil
import subprocess
import tempfile

import pytest

from tests.deepspeed import training
from tests.deepspeed.test_zero import agree, reference, with_torch


@functools.cache
def libaio():
    """Whether a program that calls libaio can be compiled, as CFLAGS and LDFLAGS say where it lies."""
    with tempfile.TemporaryDirectory() as folder:
        source = f"{folder}/a.c"
        with open(source, "w") as file:
            file.write("#include <libaio.h>\nint main(void) { io_context_t c = 0; return io_setup(1, &c); }\n")
        flags = [*os.environ.get("CFLAGS", "").split(), source, "-o", f"{folder}/a"]
        flags += [*os.environ.get("LDFLAGS", "").split(), "-laio"]
        return subprocess.run([shutil.which("cc") or "gcc", *flags], capture_output=True).returncode == 0


def offloaded(stage, precision="fp32", optimizer=None, parameters=None, folder=None, **more):
    settings = training.config(stage, precision, **more)
    zero = settings["zero_optimization"]
    path = {"nvme_path": folder} if folder else {}
    if optimizer:
        zero["offload_optimizer"] = {"device": optimizer, "pin_memory": True} | path
    if parameters:
        zero["offload_param"] = {"device": parameters, "pin_memory": True} | path
        if folder:
            zero["offload_param"]["buffer_size"] = 5_000_000  # of five; twenty times as large unless one says so
    settings["zero_force_ds_cpu_optimizer"] = False
    return settings


def same_as_cpu(settings, stage, precision):
    expected = reference(json.dumps(training.config(stage, precision)), 2)
    agree(training.on_hpu(training.train, settings), expected, precision)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("stage", "parameters"), [(1, None), (2, None), (3, None), (3, "cpu")])
def test_in_host_memory(stage, parameters, precision):
    same_as_cpu(with_torch(offloaded(stage, precision, "cpu", parameters)), stage, precision)


def load_without_libaio():
    """What is said where no compiler finds libaio."""
    with training.deepspeed_alone(), pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError) as error:
        from deepspeed.ops.op_builder import AsyncIOBuilder

        patch.setenv("LDFLAGS", "-nostdlib -nodefaultlibs -L/nowhere -Wl,--no-such-option")  # nothing can be linked
        AsyncIOBuilder().load()
    return str(error.value)


def test_missing_libaio_is_named():
    (said,) = training.on_hpu(load_without_libaio)[:1]
    assert "libaio-dev" in said
    assert "CFLAGS" in said
