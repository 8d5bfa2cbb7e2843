"""The table of CUDA names, row by row."""

import json

import torch

from openhpu.integration.migration.cuda_names import ROWS

ON = "import habana_frameworks.torch.gpu_migration\nimport torch, json\n"
DEVICE_NAMED = {"new_tensor", "asarray", "nested_tensor"}  # functions that have no schema

# Arguments of functions that take a device, beside it; where missing: (2,).
ARGUMENTS = {
    **dict.fromkeys(("torch.as_tensor", "torch.asarray", "torch.tensor", "torch.nested.nested_tensor"), "[[1.0]]"),
    "torch.empty_permuted": "(2, 3), (0, 1)",
    "torch.empty_strided": "(2,), (1,)",
    "torch.full": "(2,), 1.0",
    "torch.empty_quantized": None,
    "torch.from_file": None,  # of the CPU
    "torch.linspace": "0, 1, 3",
    "torch.logspace": "0, 1, 3",
    "torch.normal": "0.0, 1.0, (2,)",
    "torch.randint": "3, (2,)",
    "torch.randint_like": "x, 3",
    "torch.full_like": "x, 1.0",
    "torch.range": "0, 1",
    **{f"torch.{name}_like": "x" for name in ("empty", "ones", "rand", "randn", "zeros")},
    "torch.sparse_coo_tensor": "[[0]], [1.0], (2,)",
    "torch.sparse_compressed_tensor": "[0, 1], [0], [1.0], (1, 2), layout=torch.sparse_csr",
    "torch.sparse_csr_tensor": "[0, 1], [0], [1.0], (1, 2)",
    "torch.sparse_csc_tensor": "[0, 1], [0], [1.0], (2, 1)",
    **{f"torch.sparse_{kind}_tensor": "[0, 1], [0], [[[1.0]]], (1, 1)" for kind in ("bsr", "bsc")},
    "torch.scalar_tensor": "1.0",
    "torch.tril_indices": "2, 2",
    "torch.triu_indices": "2, 2",
    **{f"torch.{name}_window": "4" for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")},
    **{f"torch.{name}": "4" for name in ("arange", "eye", "randperm", "fft.fftfreq", "fft.rfftfreq")},
}
METHODS = {
    "to": "x.to('cuda')",
    "new_empty": "x.new_empty(2, device='cuda')",
    "new_ones": "x.new_ones(2, device='cuda')",
    "new_empty_strided": "x.new_empty_strided((2,), (1,), device='cuda')",
    "new_tensor": "x.new_tensor([1.0], device='cuda')",
    "new_full": "x.new_full((2,), 1.0, device='cuda')",
    "new_zeros": "x.new_zeros(2, device='cuda:0')",
    "type": "x.type('torch.cuda.DoubleTensor')",
    "cuda": "x.cuda(0)",
}


def test_each_row_is_complete():
    for row in ROWS.values():
        assert row.how in ("same", "changed", "ignored", "refused"), row
        assert row.install in ("object", "arguments", "value", "constant", "module", "own", "later", "core", "none"), (
            row
        )
        assert row.result if row.how == "refused" else row.counterpart or row.result, row
        assert row.result or row.how != "changed", row
        assert row.counterpart or row.install != "arguments", row


def test_every_public_name_of_torch_cuda_has_a_row():
    assert not {f"torch.cuda.{name}" for name in torch.cuda.__all__} - set(ROWS)


def test_every_function_that_takes_a_device_has_a_row():
    found = set(DEVICE_NAMED)
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        taken = any(argument.name == "device" and "Device" in str(argument.type) for argument in schema.arguments)
        if space == "aten" and taken and not name.startswith("_"):
            found.add(name.replace("fft_", ""))
    rows = {name.rpartition(".")[2] for name in ROWS}
    assert not found - rows


def test_each_name_is_its_counterpart(script):
    """Objects are the counterpart's; values are returned; refused names are errors with the reason."""
    code = """
    from openhpu.integration.migration.cuda_modules import resolve
    from openhpu.integration.migration.cuda_names import ROWS
    from openhpu.integration.migration import own
    wrong = []
    for row in ROWS.values():
        owner, _, name = row.name.rpartition(".")
        try:
            value = getattr(resolve(owner), name) if row.how == "refused" else resolve(row.name)
        except AttributeError as error:
            if row.how != "refused" or row.result not in str(error) or "docs/migration.md" not in str(error):
                wrong.append((row.name, str(error)))
            continue
        if row.install == "object" and value is not resolve(row.counterpart):
            if row.counterpart != "torch.hpu._initialized" and "default_generators" not in row.name:
                wrong.append((row.name, value))
        given = value(1) if row.install == "value" else value
        if row.install in ("value", "constant") and given != eval(row.counterpart):
            wrong.append((row.name, value))
        if row.install == "own" and value is not own.BY_NAME[row.name]:
            wrong.append((row.name, value))
        if row.how == "refused" and row.install == "none" and "cpp_extension" not in row.name:
            wrong.append((row.name, "not refused"))
    print(json.dumps(wrong, default=str))
    """
    assert json.loads(script(ON + code.replace("\n    ", "\n"), warnings="ignore").out.splitlines()[-1]) == []


def _calls():
    for row in ROWS.values():
        if row.install != "arguments" or not row.name.startswith("torch.") or row.source != "tensors":
            continue
        name = row.name.removeprefix("torch.")
        if name.startswith("Tensor."):
            yield METHODS.get(name.removeprefix("Tensor."))
            continue
        arguments = ARGUMENTS.get(row.name, "(2,)")
        yield None if arguments is None else f"{row.name}({arguments}, device='cuda')"
        yield None if arguments is None else f"{row.name}({arguments}, device=torch.device('cuda', 0))"


def test_cuda_as_a_device_is_hpu_everywhere(script):
    calls = [
        *filter(None, _calls()),
        "x.cuda(0)",
        "torch.nn.Linear(2, 2, device='cuda').weight",
        "torch.nn.Linear(2, 2).cuda().bias",
        "torch.nn.Linear(2, 2).to('cuda').bias",
        "torch.Generator('cuda')",
        "torch.nn.Linear(2, 2, device='meta').to_empty(device='cuda').bias",
        "torch.Stream(device='cuda')",
        "torch.cuda.FloatTensor(2)",
        "torch.cuda.Stream()",
        "x.type(torch.cuda.HalfTensor)",
    ]
    code = f"""
x = torch.ones(2)
def made(call):
    try:
        return eval(call).device.type
    except Exception as error:  # what hpu does not have
        return str(error)[:60]
for call in {calls!r}:
    found = made(call)
    if found != "hpu" and (found == "cpu" or found != made(call.replace("cuda", "hpu"))): print(call, found)
"""
    assert len(calls) > 90
    assert script(ON + code, warnings="ignore").out == ""


def test_what_a_script_asks_of_tensors_and_devices(script):
    code = """
import pickle
x = torch.ones(2, device="cuda")
device = torch.device("cuda:0")
print(x.is_cuda, torch.ones(1).is_cuda, x.to("cuda") is x, x.cuda() is x, x.to(torch.float32) is x)
print(device, isinstance(device, torch.device), type(device) is torch.device)
print(pickle.loads(pickle.dumps(device)) == device, torch.device("cuda") == torch.device("hpu"))
print(torch.device("cuda"), torch.device(type="cuda", index=1), torch.device("cpu"))
print(x.untyped_storage().is_cuda, x.untyped_storage().cuda().device, torch.nn.utils.rnn.pack_sequence([x]).is_cuda)
with torch.device("cuda"):
    print(torch.zeros(1).device, torch.nn.Linear(1, 1).weight.device)
torch.set_default_device("cuda"); print(torch.zeros(1).device); torch.set_default_device("cpu")
torch.set_default_tensor_type("torch.cuda.DoubleTensor"); print(torch.zeros(1).device, torch.zeros(1).dtype)
torch.set_default_tensor_type("torch.FloatTensor"); print(torch.zeros(1).device, torch.zeros(1).dtype)
"""
    assert script(ON + code, warnings="ignore").out.splitlines() == [
        "True False True True True",
        "hpu:0 True True",
        "True True",
        "hpu hpu:1 cpu",
        "True hpu:0 True",
        "hpu:0 hpu:0",
        "hpu:0",
        "hpu:0 torch.float64",
        "cpu torch.float32",
    ]


def test_files_that_were_saved_on_cuda(script):
    """A checkpoint whose tensors have the tag cuda:0, as a GPU writes it, and one that was saved on hpu."""
    code = """
import torch
torch.serialization.register_package(1, lambda storage: "cuda:0", lambda storage, location: None)
torch.save({"w": torch.ones(2)}, "cuda.pt")
torch.serialization._package_registry.pop(0)
import habana_frameworks.torch.gpu_migration
torch.save({"w": torch.ones(2, device="cuda")}, "hpu.pt")
for file in ("cuda.pt", "hpu.pt"):
    for where in (
        None, "cuda", "cuda:0", torch.device("cuda"), {"cuda:0": "cuda:0"}, {"cpu": "cuda:0"}, {"cuda:1": "cpu"},
        lambda storage, tag: storage.cuda(0), lambda storage, tag: None, {"cuda:0": "cpu"}, {"hpu:0": "cpu"}, "cpu",
        lambda storage, tag: storage if tag == "cuda:0" else None, torch.device("cpu"),
    ):
        print(torch.load(file, map_location=where)["w"].device, end=" ")
torch.save(torch.ones(2), "cpu.pt")
for where in ({"cuda:0": "meta"}, {"cpu": "cuda:0"}):
    print(torch.load("cpu.pt", where).device, end=" ")
"""
    assert script(code).out == ("hpu:0 " * 9 + "cpu " * 5) * 2 + "cpu hpu:0"


def test_parts_of_other_packages(script):
    code = """
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
print(memory.total == memory.free + memory.used > 0, pynvml.nvmlDeviceGetUtilizationRates(handle).gpu >= 0)
from apex.normalization import FusedLayerNorm
from apex.optimizers import FusedAdam, FusedLAMB, FusedSGD
layer = FusedLayerNorm(2, device="cuda")
for make in (FusedAdam, FusedLAMB, FusedSGD):
    optimizer = make(layer.parameters(), lr=0.1)
    layer(torch.tensor([[1.0, 3.0]], device="cuda")).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(type(optimizer).__name__, bool((layer.weight != 1).all()))
try:
    from apex import amp
except ImportError as error:
    print(error)
"""
    assert script(ON + code, warnings="ignore").out.splitlines() == [
        "True True",
        "AdamW True",
        "FusedLamb True",
        "SGD True",
        "cannot import name 'amp' from 'apex' (unknown location)",
    ]
