"""Loading: each test in a process of its own."""

import importlib.machinery
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import openhpu
from openhpu import _machine
from openhpu.integration import compat

LOAD = "import torch; import habana_frameworks.torch; "


def test_autoload_registers_and_opens_nothing(script):
    code = """
        import sys, torch
        before = set(sys.modules)
        import habana_frameworks.autoload as autoload
        getattr(autoload, "__autoload")()
        new = set(sys.modules) - before
        heavy = ["numpy", "torch._dynamo", "torch.distributed", "torch.fx.experimental"]
        heavy += ["openhpu.compiler.client.disk_cache", "openhpu.observe.profiler.trace_file"]
        heavy = [m for m in heavy if m in new]
        print(autoload.is_loaded, torch.hpu.is_available(), torch.hpu.is_initialized(), heavy)
        print(torch.accelerator.current_accelerator())
    """
    assert script(code).out.splitlines() == ["True True False []", "hpu"]


def test_a_start_makes_few_objects(script):
    """Python's garbage collector runs over all of PyTorch's objects once enough new ones were made. A script that
    imports and allocates shall make too few for that."""
    code = """
        import gc, sys, torch
        gc.disable()
        counted = gc.get_count()[0]
        import habana_frameworks.autoload as autoload
        getattr(autoload, "__autoload")()
        imported = gc.get_count()[0] - counted
        modules = [name for name in sys.modules if name.startswith("openhpu.capture.hpu_graphs.")]
        modules += {"tomllib", "openhpu.settings.table_files"} & set(sys.modules)
        torch.empty(1, device="hpu")
        allocated = gc.get_count()[0] - counted - imported
        print(modules, imported < 6500, allocated < 2500, imported, allocated)
        for name in (*torch.hpu.graphs.__all__, "graphs", "is_current_stream_capturing"):
            assert name in dir(torch.hpu) and name in torch.hpu.__all__ and getattr(torch.hpu, name), name
    """
    for _ in range(2):  # the first one keeps the rows of tables
        result = script(code, fresh=True, PYTHONDONTWRITEBYTECODE="", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.out.startswith("[] True True"), result.out


def test_the_entry_point_is_declared():
    from importlib.metadata import entry_points

    points = [point.value for point in entry_points(group="torch.backends")]
    assert "habana_frameworks.autoload:__autoload" in points


def test_autoload_can_be_forbidden_and_the_import_still_loads(script):
    code = """
        import torch
        import habana_frameworks.autoload as autoload
        getattr(autoload, "__autoload")()
        print(hasattr(torch, "hpu"))
        import habana_frameworks.torch.hpu as hthpu
        print(hthpu is torch.hpu, autoload.is_loaded)
    """
    assert script(code, PT_HPU_AUTOLOAD="0").out.splitlines() == ["False", "True True"]


def test_finding_the_package_loads_nothing(script):
    code = """
        import sys
        from importlib.util import find_spec
        print(find_spec("habana_frameworks") is not None, find_spec("habana_frameworks.torch") is not None)
        print([m for m in sys.modules if m.startswith(("torch", "openhpu"))])
    """
    assert script(code, fresh=True).out.splitlines() == ["True True", "[]"]


def test_a_late_load_is_an_error_that_says_what_to_do(script):
    result = script("import torch; torch.accelerator.current_accelerator(); import habana_frameworks.torch", fails=True)
    assert result.last.startswith(
        "RuntimeError: PyTorch was asked for its accelerator before the hpu device was loaded"
    )
    assert "Import habana_frameworks.torch directly after torch" in result.last


def test_a_missing_core_is_an_error(script):
    hide = "import sys; sys.modules['openhpu._C'] = None; import torch; "
    result = script(hide + "import habana_frameworks.torch", fails=True)
    assert "openhpu._C, is missing; build it with `make build`" in result.last


ANOTHER = "from openhpu.integration import compat; compat.built = lambda: ['2.9']"


def test_another_pytorch_is_an_error_that_names_both(script):
    result = script(ANOTHER + "; import torch; import habana_frameworks.torch", fails=True, warnings="ignore")
    assert result.last.startswith(
        "openhpu.integration.registration.ExtensionError: its compiled core was built with PyTorch 2.9 and does not "
        f"fit the installed PyTorch {torch.__version__}"
    )
    assert 'site-packages/torch). Install that one with `pip install "torch==2.9.*"`, or build openhpu' in result.last


AUTOLOAD = """
import torch
print((torch.ones(2) + 1).tolist(), hasattr(torch, "hpu"))
for use in (lambda: torch.ones(1, device="hpu"), lambda: torch.ones(1).to("hpu")):
    try:
        use()
    except RuntimeError as error:
        print(error)
"""
BROKEN = {
    "no _machine": ("sys.modules['openhpu._machine'] = None", "its compiled core, openhpu._C, is missing; build"),
    "PyTorch is newer than each core": (
        "from openhpu.integration import compat; compat.built = lambda: ['2.8', '2.9']",
        "its compiled core was built with PyTorch 2.8 and 2.9 and does not fit the installed PyTorch "
        f"{torch.__version__} (in ",
    ),
    "a defect": ("from openhpu import settings; settings.check_environment = lambda: 1 / 0", "ZeroDivisionError: div"),
    "a late defect": ("from openhpu import settings; settings.get = lambda name: {}[name]", "KeyError: "),
}


@pytest.mark.parametrize("warnings", ["default", "error"])
@pytest.mark.parametrize("what", BROKEN)
def test_import_torch_never_fails_and_each_use_says_why_there_is_no_device(script, what, warnings):
    breaks, reason = BROKEN[what]
    result = script(f"import sys; {breaks}{AUTOLOAD}", warnings=warnings, TORCH_DEVICE_BACKEND_AUTOLOAD="1")
    assert result.out.splitlines()[0] == "[2.0, 2.0] False"
    errors = result.out.splitlines()[1:]
    assert len(errors) == 2
    assert all(error.startswith(f"the hpu device is not available: {reason}") for error in errors)
    assert result.err.count("RuntimeWarning: the hpu device is not available: " + reason) == 1


def test_of_two_pytorches_the_error_names_both(script, tmp_path):
    (tmp_path / "behind" / "torch" / "lib").mkdir(parents=True)
    code = f"""
        import sys; sys.path.append({str(tmp_path / "behind")!r})
        {ANOTHER}
        import habana_frameworks.torch
    """
    assert f"; in front of {tmp_path / 'behind' / 'torch'} on sys.path)" in script(code, fails=True).last


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A copy of the package without what was compiled, in a folder that scripts find first."""
    package = Path(openhpu.__file__).parent
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    copy = shutil.copytree(package, tmp_path / "site" / "openhpu", ignore=ignored)
    path = os.pathsep.join(map(str, (copy.parent, package.parent)))
    return copy, {"PYTHONPATH": path, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "warnings": "default"}


TENSOR = """
import torch, openhpu
print((torch.ones(2) + 1).tolist(), openhpu.__file__)
torch.ones(1, device="hpu")
"""


def test_a_wheel_of_another_python_says_so(script, installed):
    copy, environment = installed
    for name in ("_machine", "cores/2.13/_C"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / f"{name}.cpython-39-riscv64-linux-gnu.so").touch()
    result = script(TENSOR, fails=True, **environment)
    assert result.out == f"[2.0, 2.0] {copy / '__init__.py'}"
    expected = "it was installed for cpython-39-riscv64-linux-gnu, and this is cpython-"
    assert result.last.startswith(f"RuntimeError: the hpu device is not available: {expected}")
    assert result.last.endswith(" -m pip install --force-reinstall openhpu-*.whl`")


@pytest.mark.parametrize("what", ["_machine", "core"])
def test_a_c_library_that_is_older_than_the_cores_is_named(script, installed, tmp_path, what):
    """The library is linked with a mathematical library of the future, and finds today's."""
    copy, environment = installed
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    core = f"cores/{compat.release(torch.__version__)}/_C{suffix}"
    (copy / core).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "future").mkdir()
    (tmp_path / "future.c").write_text("double future(double x) { return x; }\n")
    (tmp_path / "future.map").write_text("GLIBC_2.99 { future; };\n")
    (tmp_path / "ours.c").write_text("double future(double); double ours(double x) { return future(x); }\n")
    linked = core if what == "core" else f"_machine{suffix}"
    if what == "core":
        shutil.copy2(_machine.__file__, copy)
    library = ["gcc", "-shared", "-fPIC"]
    future = [*library, "future.c", "-o", "future/libm.so.6", "-Wl,-soname,libm.so.6,--version-script=future.map"]
    subprocess.run(future, cwd=tmp_path, check=True, timeout=60)
    ours = [*library, "ours.c", "-o", str(copy / linked), "-Lfuture", "-l:libm.so.6"]
    subprocess.run(ours, cwd=tmp_path, check=True, timeout=60)
    result = script(TENSOR, fails=True, **environment)
    assert result.out == f"[2.0, 2.0] {copy / '__init__.py'}"
    assert "not available: its compiled core needs a newer GNU C library than this system has (" in result.last
    assert "version `GLIBC_2.99' not found" in result.last
    assert result.last.endswith("or build openhpu here, with g++ 11 or newer, in its sources: `pip install .`")


def test_what_was_missing_at_autoload_can_be_loaded_later(script):
    code = """
        import sys
        sys.modules["openhpu._C"] = None
        import torch
        del sys.modules["openhpu._C"]
        import habana_frameworks.torch
        print(torch.hpu.is_available(), torch.ones(2, device="hpu").tolist(), torch.accelerator.current_accelerator())
    """
    assert script(code, warnings="ignore", TORCH_DEVICE_BACKEND_AUTOLOAD="1").out == "True [1.0, 1.0] hpu"


def test_one_module_object_under_all_names(script):
    code = """import habana_frameworks.torch.core as htcore, habana_frameworks.torch.utils.experimental as htexp
import habana_frameworks.torch.hpu.random as r1, torch.hpu.random as r2, openhpu.device.random as r3
import habana_frameworks.torch.hpu.metrics as m1, torch.hpu.metrics as m2
from habana_frameworks.torch.hpu.memory import memory_stats
print(htcore.hpu is htexp.hpu is torch.hpu is torch.hpu.hpu is habana_frameworks.torch.hpu, r1 is r2 is r3, m1 is m2)
print(torch.get_device_module("hpu") is torch.get_device_module() is torch.hpu)
"""
    assert script(LOAD + code).out.splitlines() == ["True True True", "True"]


def test_an_environment_set_before_the_first_use_counts(script):
    code = """
import os
print(torch.hpu.device_count() == min(8, len(os.sched_getaffinity(0))))
os.environ["HABANA_VISIBLE_MODULES"] = "4,5,6"
print(torch.hpu.device_count())
x = torch.ones(1, device="hpu:2")
os.environ["HABANA_VISIBLE_MODULES"] = "4"
print(torch.hpu.device_count(), torch.hpu.get_device_properties(2).module, x.device)
"""
    assert script(LOAD + code).out.splitlines() == ["True", "3", "3 6 hpu:2"]


def test_a_device_that_pytorch_opens_by_itself_is_configured(script):
    code = """event = torch.Event(device='hpu'); event.record()
print(torch.accelerator.device_count(), torch.ones(2, device='hpu:1').device, torch.hpu.mem_get_info()[1])"""
    result = script(LOAD + code, OPENHPU_DEVICE_COUNT="2", OPENHPU_MEMORY_GB="1")
    assert result.out == f"2 hpu:1 {2**30}"


def test_a_rank_without_a_module_is_told_when_it_uses_the_device(script):
    code = """
torch.manual_seed(0)
torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
for x in torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2):
    model(x).sum().backward()
print(torch.hpu.is_available(), model.module.bias.grad.tolist(), flush=True)
torch.distributed.destroy_process_group()
torch.ones(1, device="hpu")
"""
    result = script(LOAD + code, fails=True, LOCAL_RANK="8", LOCAL_WORLD_SIZE="16")
    assert result.out == "True [4.0, 4.0]"
    assert "LOCAL_RANK=8 has no module: this machine has 8, numbers 0 to 7." in result.last
