"""Migration switched on, off, late, and where it cannot be."""

import pytest

SNAPSHOT = """
import torch, sys
import torch.nn.utils.rnn, torch.distributed.device_mesh, torch.profiler, torch.autograd.profiler
def owners():
    from openhpu.integration.migration.cuda_names import ROWS
    from openhpu.integration.migration.cuda_modules import resolve
    found = {}
    for name in {row.name.rpartition(".")[0] for row in ROWS.values() if row.source not in ("nvml", "apex", "compile")}:
        owner = resolve(name)
        found[name] = id(owner), {key: id(value) for key, value in vars(owner).items() if not key.startswith("__")}
    return found
def devices():
    finders = [str(finder) for finder in sys.meta_path]
    return str(torch.device("cuda")), finders, len(torch.serialization._package_registry)
"""


def test_off_nothing_is_touched(script):
    code = """
before = {name: id(value) for name, value in vars(torch).items()}, sys.modules["torch.cuda"], vars(torch.cuda).copy()
import habana_frameworks.torch
print([name for name in sys.modules if "migration" in name], torch.cuda is before[1], vars(torch.cuda) == before[2])
print(torch.cuda.is_available(), torch.device("cuda"), torch.Tensor.__dict__.get("is_cuda"), "to" in vars(torch.Tensor))
changed = {name for name, value in vars(torch).items() if before[0].get(name) != id(value)}
print(sorted(changed - {"hpu", "set_num_threads"}))
"""
    assert script(SNAPSHOT + code).out.splitlines() == ["[] True True", "False cuda None False", "[]"]


def test_uninstalling_restores_every_name(script):
    code = """
import habana_frameworks.torch
from openhpu.integration.migration import installation
from openhpu.integration.migration.cuda_names import ROWS
devices(); before = owners(), devices()
installation.install(); installation.install()
assert owners() != before[0]
assert devices() != before[1]
installation.uninstall()
after = owners(), devices()
for name, (owner, found) in before[0].items():
    now = after[0][name]
    keys = {key for key in now[1] if key in found or f"{name}.{key}" in ROWS} | set(found)
    print(*(f"{name}.{key}" for key in keys if owner != now[0] or found.get(key) != now[1].get(key)), end="")
print(before[1] == after[1])
print(torch.cuda.is_available())
"""
    assert script(SNAPSHOT + code).out.splitlines() == ["True", "False"]


@pytest.mark.parametrize("autoload", ["0", "1"])
def test_the_variable_and_the_import_do_the_same(script, autoload):
    code = "import torch\nif {0!r} == '0': import habana_frameworks.torch\nprint(torch.ones(1, device='cuda').is_cuda)"
    variables = {"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload, "PT_HPU_GPU_MIGRATION": "1"}
    assert script(code.format(autoload), fresh=autoload == "1", **variables).out == "True"


def test_a_variable_that_is_set_late_is_told_once(script):
    code = """
import os, torch
import habana_frameworks.torch
os.environ["PT_HPU_GPU_MIGRATION"] = "1"
import habana_frameworks.torch.core
for _ in range(2):
    print(torch.ones(1).to("hpu").device, torch.cuda.is_available())
"""
    result = script(code, warnings="default")
    assert result.out.splitlines() == ["hpu:0 False"] * 2
    assert result.err.count("PT_HPU_GPU_MIGRATION was set after `import torch`") == 1
    assert "Set it before `import torch`, or import habana_frameworks.torch.gpu_migration" in result.err


@pytest.mark.parametrize("beside", ["", "1"])
def test_a_machine_with_a_gpu(script, beside):
    code = """
import torch
torch.version.cuda = "13.0"
from openhpu.integration import beside_cuda, registration
beside_cuda.gpu_is_usable = lambda: True
registration.autoload()
import habana_frameworks.torch.gpu_migration
"""
    result = script(code, warnings="default", fails=True, OPENHPU_BESIDE_CUDA=beside, PT_HPU_GPU_MIGRATION="1")
    assert "the hpu device is not available: GPU migration runs scripts written for CUDA on hpu" in result.err
    assert "MigrationBesideGpuError" in result.last
    assert "unset PT_HPU_GPU_MIGRATION" in result.last
    assert "CUDA_VISIBLE_DEVICES=-1" in result.last


def test_names_without_a_row_and_devices_that_nothing_translates(script):
    code = """
import habana_frameworks.torch.gpu_migration
import torch
torch.cuda._original.brand_new = print
torch.cuda._original.__all__.append("brand_new")
for call in ("torch.cuda.brand_new", "torch.cuda.nothing", "torch.cuda.MemPool()",
             "torch.ops.aten.zeros([1], device='cuda')",
             "torch.zeros(1, device='cudax')", "torch._C._VariableFunctions.zeros(1, device='cuda')"):
    try:
        print(eval(call))
    except Exception as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}")
"""
    lines = script(code).out.splitlines()
    assert lines[0].startswith("AttributeError: torch.cuda.brand_new is not in OpenHPU's table of CUDA names")
    assert "docs/migration.md" in lines[0]
    assert lines[1] == "AttributeError: module 'torch.cuda' has no attribute 'nothing'"
    assert lines[2].startswith("AttributeError: torch.cuda.MemPool has no counterpart on hpu: the device has one")
    assert any(name in lines[3].lower() for name in ("cuda", "nvidia"))  # PyTorch 2.14 names the driver
    assert lines[4].startswith("RuntimeError: Expected one of cpu, cuda")
    assert lines[5].startswith("RuntimeError: a device 'cuda' has reached PyTorch by a function that GPU migration")


LOGGED = """
import torch
x = torch.zeros(2, device="cuda")  # line 3
for _ in range(3):
    torch.cuda.synchronize()  # line 5
device = torch.device("cuda")  # line 6
hasattr(torch.cuda, "cudart")  # line 7
torch.manual_seed(0)
"""


@pytest.mark.parametrize("level", ["0", "1", "2", "3"])
def test_the_log_names_each_line_once(script, tmp_path, level):
    variables = {"PT_HPU_GPU_MIGRATION": "1", "GPU_MIGRATION_LOG_LEVEL": level, "HABANA_LOGS": str(tmp_path / "logs")}
    (tmp_path / "logged.py").write_text(LOGGED)
    result = script("import torch, habana_frameworks.torch, logged", **variables)
    file = tmp_path / "logs" / "gpu_migration.log"
    text = file.read_text() if file.exists() else ""
    lines = [line.partition("logged.py:")[2] for line in text.splitlines() if "logged.py:" in line]
    expected = [
        "3: torch.zeros: same torch.zeros (device)",
        "5: torch.cuda.synchronize: same torch.hpu.synchronize",
        "6: torch.device: same torch.device",
        "7: torch.cuda.cudart: refused (there is no CUDA runtime)",
    ]
    assert len(lines) == (0 if level == "0" else 4)
    assert all(line.startswith(begin) for line, begin in zip(lines, expected, strict=False))
    assert (level == "1") == ("torch.cuda.synchronize" in result.err)
    assert ("torch/random.py" in text) == (level in ("1", "2"))


def test_a_log_that_cannot_be_written_and_a_level_that_does_not_exist(script, tmp_path):
    (tmp_path / "file").touch()
    variables = {"PT_HPU_GPU_MIGRATION": "1", "HABANA_LOGS": str(tmp_path / "file" / "logs")}
    code = "import torch, habana_frameworks.torch; torch.cuda.synchronize()"
    result = script(code, GPU_MIGRATION_LOG_LEVEL="2", **variables)
    assert "file/logs/gpu_migration.log cannot be written" in result.err
    result = script("import habana_frameworks.torch", GPU_MIGRATION_LOG_LEVEL="9", fails=True, **variables)
    assert "GPU_MIGRATION_LOG_LEVEL='9' is not valid" in result.last


def test_the_errors_and_profiles_of_a_group_that_is_called_nccl(script, tmp_path):
    """PyTorch asks for NCCL's version there."""
    code = f"""
import torch, torch.distributed as dist
import habana_frameworks.torch.gpu_migration
dist.init_process_group("nccl", init_method="file://{tmp_path}/meet", rank=0, world_size=1)
with torch.profiler.profile():
    try:
        dist.all_reduce(torch.ones(3, 2, device="cuda").t())
    except ValueError as error:
        print(dist.get_backend(), error)
print(torch.cuda.nccl.version() >= (2, 10), hasattr(torch.cuda.nccl, "all_reduce"))
dist.destroy_process_group()
"""
    lines = script(code, warnings="ignore").out.splitlines()
    assert lines[0].startswith("nccl hccl allreduce: Tensors must be contiguous")
    assert lines[1:] == ["True False"]


def test_the_older_profilers_measure_the_device(script):
    code = """
import torch
import habana_frameworks.torch.gpu_migration
from torch.autograd import profiler

x = torch.ones(200, 200, device="cuda")
(x @ x).sum().item()
for arguments in ({"use_cuda": True}, {"use_device": "cuda"}, {"use_device": "cuda", "use_cpu": False}):
    with profiler.profile(**arguments) as prof:
        (x @ x).sum().item()
    print(prof.use_device, prof.self_device_time_total > 0 if hasattr(prof, "self_device_time_total") else
          sum(event.device_time_total for event in prof.key_averages()) > 0)
for use_cuda in (True, False):
    with torch.profiler.profile(use_cuda=use_cuda) as prof:
        (x @ x).sum().item()
    print(any(event.device_time_total > 0 for event in prof.key_averages()))
with profiler.profile() as prof:
    (x @ x).sum().item()
print(prof.use_device, any(event.device_time_total > 0 for event in prof.key_averages()))
"""
    lines = script(code, warnings="ignore").out.splitlines()
    assert lines == ["hpu True", "hpu True", "hpu True", "True", "False", "None False"]
