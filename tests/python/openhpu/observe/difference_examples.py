"""For each row of the table of differences (`openhpu.observe.differences`) a script that does such a thing."""

from typing import NamedTuple


class Example(NamedTuple):
    """`prints`: what it prints here, and then with OPENHPU_STRICT=gaudi if it raises no error there; nothing where both
    raise it."""

    code: str
    prints: tuple[str, ...]
    mode: str = "lazy"


def _of(code: str, *prints: str, mode: str = "lazy") -> Example:
    return Example(f"import torch, habana_frameworks.torch as ht\n{code}", prints, mode)


_GRAPH = """
x = torch.ones(4, device="hpu")
with ht.hpu.graph(g := ht.hpu.HPUGraph()):
    y = x * 2
g.replay()
print(y.sum().item())
"""

_SAVED = """
import io
file = io.BytesIO()
torch.save(torch.tensor({}), file)
file.seek(0)
print(torch.load(file, map_location="hpu")[0].item())
"""

EXAMPLES = {
    "autoload": Example("import torch\nprint(torch.ones(2, device='hpu').sum().item())", ("2.0",)),
    "int64-range": _of("print(torch.tensor([1, 2**40]).to('hpu')[0].item())", "1"),
    "float64-range": _of(
        "print(torch.tensor([1.0, 1e300, float('inf')], dtype=torch.float64).to('hpu')[0].item())", "1.0"
    ),
    "int64-stored": _of(_SAVED.format("[2**40, 1]"), "1099511627776", "1099511627776"),
    "float64-stored": _of(_SAVED.format("[1e300, 1.0], dtype=torch.float64"), "1e+300", "1e+300"),
    "storage-bytes": _of(
        "x = torch.zeros(1, dtype=torch.int64, device='hpu')\n"
        "x.untyped_storage().copy_(torch.tensor([2**40]).untyped_storage())\nprint(x.item())",
        "1099511627776",
        "1099511627776",
    ),
    "int64-arithmetic": _of("x = torch.tensor([2**30], device='hpu')\nprint((x * 4).item())", "4294967296", "0"),
    "e4m3-range": _of(
        "x = torch.tensor([300.0, -256.0, 240.0]).to(torch.float8_e4m3fn)\nprint(x.to('hpu').float().tolist())",
        "[288.0, -256.0, 240.0]",
        "[nan, -inf, 240.0]",
    ),
    "index-out-of-range": _of(
        "x = torch.ones(3, device='hpu')\nprint(x[torch.tensor([5], device='hpu')].item())", "0.0", "0.0"
    ),
    "graphs-in-eager": _of(_GRAPH, "8.0", mode="eager"),
    "compile-in-lazy": _of(
        "f = torch.compile(lambda x: x * 2, backend='hpu_backend')\nprint(f(torch.ones(2, device='hpu')).sum().item())",
        "4.0",
    ),
    "fast-attention": _of(
        """
from habana_frameworks.torch.hpex.kernels import FusedSDPA
q, k, v = (torch.ones(1, 1, 2, 4, device="hpu", requires_grad=True) for _ in range(3))
print(FusedSDPA.apply(q, k, v, None, 0.0, False, None, "fast", True).sum().item())
""",
        "8.0",
    ),
    "lazy-collectives": _of(
        """
import torch.distributed as dist
dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(4, device="hpu")
with ht.hpu.graph(g := ht.hpu.HPUGraph()):
    dist.all_reduce(x)
g.replay()
print(x.sum().item())
dist.destroy_process_group()
""",
        "4.0",
    ),
    "tensor-cache": _of(
        """
f = ht.hpu.wrap_in_hpu_graph_func(lambda x: x + 1, disable_tensor_cache=True)
first = f(torch.zeros(1, device="hpu"))
second = f(torch.ones(1, device="hpu"))
print(first.item() + second.item())
""",
        "3.0",
        "4.0",
    ),
    "cpu-operand": _of("print(torch.ones(2, device='hpu') + torch.ones(2))", mode="eager"),
    "shape-in-capture": _of(_GRAPH.replace("x * 2", "x[x > 0]")),
    "question": _of(
        "torch.hpu.current_stream()\nprint(torch.hpu.is_initialized())\ntorch.ones(1, device='hpu')", "False", "True"
    ),
}
