"""What `make aarch64` runs on each processor: `python -m release.smoke FUNCTION [ARGUMENT ...]`.

A function raises where something is wrong. Each prints what it found in a line.
"""

import copy
import hashlib
import json
import os
import re
import runpy
import sys
import unittest
import warnings
from pathlib import Path

import torch
from torch import nn

_CHECK = unittest.TestCase()
ROOT = Path(__file__).resolve().parents[1]
MODELS = {
    "perceptron": (nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)), (8, 16)),
    "convolutions": (
        nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4)
        ),
        (2, 3, 8, 8),
    ),
    "transformer": (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (2, 5, 16)),
}
# These are made of PyTorch's own operators, whose kernels add and multiply in other ways on each processor.
OF_PYTORCH = ("hpex FusedAdagrad, float32", "hpex FusedLamb, float32")


def processor() -> str:
    return f"{os.uname().machine} {torch.backends.cpu.get_cpu_capability()}"


def device() -> str:
    """Devices, memory, streams, events, threads, and an error."""
    x = torch.arange(6.0, device="hpu").view(2, 3)
    assert torch.hpu.is_available()
    assert torch.hpu.device_count() >= 1
    stream, event = torch.hpu.Stream(), torch.hpu.Event()
    with torch.hpu.stream(stream):
        y = x @ x.t()
        event.record()
    event.synchronize()
    assert y.sum().item() == 83.0
    assert torch.hpu.memory_stats()["InUse"] > 0
    with _CHECK.assertRaisesRegex(RuntimeError, "cannot be multiplied"):
        x @ x
    return torch.hpu.get_device_name()


def custom_ops() -> str:
    """What users' operators are built with: headers, and libraries of this processor, which are loaded."""
    from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir

    for header in ("hpu_custom_op_pt2.h", "hpu_custom_op.h", "perf_lib_layer_params.h", "openhpu/custom_kernel.h"):
        assert (Path(get_include_dir()) / header).is_file(), header
    loaded = Path("/proc/self/maps").read_text()
    libraries = [Path(get_lib_dir()) / f"lib{name}.so" for name in ("habana_pytorch_plugin", "habana_pytorch2_plugin")]
    assert all(str(library.resolve()) in loaded for library in libraries), libraries
    return f"{sum(library.stat().st_size for library in libraries):,} bytes"


def trained(model: nn.Module, size: tuple[int, ...], dtype: torch.dtype, where: str) -> list[torch.Tensor]:
    """The parameters after two steps of SGD."""
    model = copy.deepcopy(model).to(where, dtype)
    x = torch.linspace(-1, 1, torch.Size(size).numel()).view(size).to(where, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def autograd() -> str:
    """Models train as on the CPU."""
    for model, size in MODELS.values():
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 5e-2)):
            on_cpu, on_hpu = (trained(model, size, dtype, where) for where in ("cpu", "hpu"))
            torch.testing.assert_close(on_hpu, on_cpu, rtol=tolerance, atol=tolerance)
    return ", ".join(MODELS)


def lazy(made: str) -> str:
    """Forward and backward passes in recipes, which are made ("graph_compilation") or from disk ("recipe_loaded")."""
    import habana_frameworks.torch.core as htcore
    import openhpu

    told = []
    openhpu.events.subscribe(None, lambda event: told.append(event.kind))
    model, size = MODELS["perceptron"]
    x = torch.linspace(-1, 1, 128).view(size)
    on_hpu = copy.deepcopy(model).to("hpu")
    for scale in (1.0, 2.0, 3.0):
        loss = on_hpu((x * scale).to("hpu")).square().mean()
        loss.backward()
        htcore.mark_step()
        openhpu.wait_for_recipes()
        torch.testing.assert_close(loss.cpu(), model(x * scale).square().mean(), rtol=1e-4, atol=1e-5)
        on_hpu.zero_grad()
    counts = openhpu.counters()
    kinds = {kind for kind in told if kind in ("graph_compilation", "recipe_loaded")}
    assert kinds == {made}, (kinds, counts)
    assert counts["ops_in_recipes"] > 0, (kinds, counts)
    return f"{len(openhpu.recipes())} recipes, {counts['ops_in_recipes']} operators in them"


def hccl(memory: str) -> str:
    """Collectives and DistributedDataParallel of two ranks; `memory`: 1 if through shared memory, 0 if not."""
    import torch.distributed as dist

    import openhpu

    dist.init_process_group("cpu:gloo,hpu:hccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x = torch.arange(100, device="hpu").to(dtype) + rank
        total = x.clone()
        dist.all_reduce(total)
        assert torch.equal(total.cpu(), (2 * torch.arange(100) + 1).to(dtype))
        every = [torch.empty_like(x) for _ in range(size)]
        dist.all_gather(every, x)
        assert [int(each[0]) for each in every] == [0, 1]
        part = torch.empty(50, dtype=dtype, device="hpu")
        dist.reduce_scatter_tensor(part, x, dist.ReduceOp.MAX)
        assert int(part[0]) == 50 * rank + 1
        turned = torch.empty_like(x)
        dist.all_to_all_single(turned, x)
        assert int(turned[50]) == 50 * rank + 1
        dist.broadcast(x, 1)
        assert int(x[0]) == 1
    large = torch.ones(1_000_000, device="hpu")
    dist.all_reduce(large)
    assert large.sum().item() == 2_000_000
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).to("hpu"))
    model(torch.full((3, 4), float(rank), device="hpu")).sum().backward()
    assert model.module.weight.grad.tolist() == [[1.5] * 4] * 2
    dist.barrier()
    used = openhpu.counters()["collectives_in_memory"]
    assert (used > 0) == (memory == "1"), used
    dist.destroy_process_group()
    return f"{used} collectives through shared memory"


def strict(mode: str) -> str:
    """OPENHPU_STRICT=gaudi: each example of the table of differences in this mode does what its row says."""
    import contextlib
    import io

    from openhpu.observe.differences import BY_KIND

    examples = runpy.run_path(str(ROOT / "tests/python/openhpu/observe/difference_examples.py"))["EXAMPLES"]
    chosen = {kind: one for kind, one in examples.items() if one.mode == mode and kind != "autoload"}
    for kind, example in chosen.items():
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(example.code, {})
            said = printed.getvalue().strip()
        except Exception as error:
            assert BY_KIND[kind].error, (kind, error)
            assert re.search(BY_KIND[kind].error, str(error)), (kind, error)
        else:
            assert not BY_KIND[kind].error, (kind, said)
            assert said == example.prints[-1], (kind, said)
    return ", ".join(chosen)


def bits(file: str) -> str:
    """Random numbers and fused optimizers: a digest of each, written to the file, or equal to those in it."""
    from openhpu.interface.hpex import optimizers
    from tests.hpu.test_compiled_same_bits import OPTIMIZERS
    from tests.hpu.test_rng import DRAWS

    found = {}
    for name, draw in DRAWS.items():
        torch.manual_seed(3)
        found[name] = digest(draw())
    names = ("FusedAdamW", "FusedSGD", "FusedAdagrad", "FusedLamb")
    own = {f"hpex {name}": (getattr(optimizers, name), {}) for name in names}
    for name, (kind, options) in (OPTIMIZERS | own).items():
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            if name in own and dtype != torch.float32:
                continue
            torch.manual_seed(4)
            params = [nn.Parameter(torch.rand(n, device="hpu").sub(0.5).to(dtype)) for n in (3, 1029)]
            optimizer = kind(params, **{"lr": 0.7, **options})
            for _ in range(3):
                for p in params:
                    p.grad = torch.rand(p.shape, device="hpu").sub(0.5).to(dtype)
                optimizer.step()
            found[f"{name}, {str(dtype).removeprefix('torch.')}"] = digest(*params)
    if not os.path.exists(file):
        Path(file).write_text(json.dumps(found))
    expected = json.loads(Path(file).read_text())
    different = [name for name in found if found[name] != expected[name]]
    assert not set(different) - set(OF_PYTORCH), different
    return f"{len(found) - len(different)} results equal, different: {', '.join(different) or 'none'}"


def digest(*tensors: torch.Tensor) -> str:
    parts = [tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes() for tensor in tensors]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def refused(*words: str) -> str:
    """The core does not fit this machine: PyTorch works, and each use of the device says why not."""
    assert torch.ones(2).sum().item() == 2
    with _CHECK.assertRaises(RuntimeError, msg="the core was loaded") as raised:
        torch.ones(1, device="hpu")
    said = str(raised.exception)
    absent = [word for word in words if word not in said]
    assert not absent, (absent, said)
    return said.splitlines()[0]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(f"found: {processor()}: {globals()[sys.argv[1]](*sys.argv[2:])}\n")
