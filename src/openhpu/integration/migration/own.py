"""What stands for CUDA names whose counterpart on hpu differs in its arguments, its results or its effect."""

import contextlib
import functools
import re
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import asdict, make_dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from openhpu.device.arguments import DeviceArgument
from openhpu.integration.migration import cuda_arguments
from openhpu.integration.migration.cuda_names import PAGE, ROWS, refusal
from openhpu.interface import hpu

BY_NAME: dict[str, Any] = {}
CAPABILITY = (8, 0)


def stands_for(*names: str) -> Callable[[Any], Any]:
    """Mark what is installed under these CUDA names."""

    def mark(value: Any) -> Any:
        BY_NAME.update(dict.fromkeys(names, value))
        return value

    return mark


@stands_for("torch.cuda._lazy_init")
def _lazy_init() -> None:
    raise RuntimeError(
        "a device 'cuda' has reached PyTorch by a function that GPU migration does not translate; write 'hpu' there. "
        f"{PAGE} lists what it translates"
    )


@stands_for("torch.cuda.get_device_capability")
def get_device_capability(device: DeviceArgument = None) -> tuple[int, int]:
    """(8, 0): with it, scripts choose bfloat16."""
    hpu.get_device_properties(device)
    return CAPABILITY


@stands_for("torch.cuda.get_device_properties")
def get_device_properties(device: DeviceArgument = None) -> Any:
    """The properties of torch.hpu, and CUDA's names for some of them."""
    own = hpu.get_device_properties(device)
    more = {"major": CAPABILITY[0], "minor": CAPABILITY[1], "multi_processor_count": own.tpc_count}
    values = {**asdict(own), **more}
    return make_dataclass("DeviceProperties", list(values), frozen=True)(**values)


@stands_for("torch.cuda.is_bf16_supported")
def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True."""
    return hpu.is_bf16_supported()


@stands_for("torch.cuda.memory_stats")
def memory_stats(device: DeviceArgument = None) -> dict[str, int]:
    """The numbers of torch.hpu, also under CUDA's keys, in bytes."""
    return {
        **hpu.memory_stats(device),
        "allocated_bytes.all.current": hpu.memory_allocated(device),
        "allocated_bytes.all.peak": hpu.max_memory_allocated(device),
        "reserved_bytes.all.current": hpu.memory_reserved(device),
        "reserved_bytes.all.peak": hpu.max_memory_reserved(device),
    }


@stands_for("torch.cuda.device_memory_used")
def device_memory_used(device: DeviceArgument = None) -> int:
    """The bytes of the device that are not free."""
    return memory_info(device).used  # type: ignore[no-any-return]


@stands_for("torch.cuda.CUDAGraph")
class CUDAGraph(hpu.HPUGraph):
    """An HPUGraph with CUDA's arguments. Operators have no effect during the capture."""

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:  # type: ignore[override]
        """Begin the capture; the arguments change nothing."""
        super().capture_begin(dry_run=True)

    def pool(self) -> tuple[int, int]:
        """A handle: the memory of each graph is its own."""
        return (0, 0)

    def instantiate(self) -> None:
        """Nothing: the capture's end makes the graph."""

    def enable_debug_mode(self) -> None:
        """Nothing."""

    def debug_dump(self, debug_path: str) -> None:
        """Nothing; GRAPH_VISUALIZATION=1 writes graphs."""


@stands_for("torch.cuda.graph")
class graph(hpu.graph):  # named as in torch.cuda
    """torch.hpu.graph with CUDA's arguments. Operators have no effect during the capture."""

    def __init__(
        self, cuda_graph: Any, pool: Any = None, stream: torch.Stream | None = None, capture_error_mode: str = "global"
    ) -> None:
        super().__init__(cuda_graph, stream, dry_run=True)


@stands_for("torch.cuda.make_graphed_callables")
def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> Any:
    """torch.hpu.make_graphed_callables with CUDA's arguments."""
    return hpu.make_graphed_callables(callables, sample_args, num_warmup_iters, allow_unused_input)


@stands_for("torch.cuda.nvtx.range", "torch.cuda.profiler.profile", "torch.autograd.profiler.emit_nvtx")
class Nothing(contextlib.nullcontext[Any]):
    """A context manager without effect, which takes all arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(self)


def _dtype_on_hpu(kind: Any) -> torch.dtype | None:
    """The dtype of a tensor type torch.cuda.X, given as a class or by name; None for all else."""
    name = kind if isinstance(kind, str) else f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', '')}"
    found = re.fullmatch(r"(?:torch\.cuda|torch\.hpu|.*tensor_types)\.(\w+Tensor)", name)
    return getattr(hpu, found[1]).dtype if found else None


_type = torch.Tensor.type
_set_default_tensor_type = torch.set_default_tensor_type


@stands_for("torch.Tensor.type")
def tensor_type(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The tensor as a type; of torch.cuda's: on hpu."""
    wanted = None if dtype is None or isinstance(dtype, torch.dtype) else _dtype_on_hpu(dtype)
    if wanted is None:
        return _type(self, dtype, non_blocking, **kwargs)
    return self.to("hpu", wanted, non_blocking=non_blocking)


@stands_for("torch.set_default_tensor_type")
def set_default_tensor_type(t: Any) -> None:
    """Of a type torch.cuda.X, given as a class or by name: its dtype and hpu become the defaults."""
    wanted = _dtype_on_hpu(t)
    torch.set_default_device("cpu" if wanted is None else "hpu")
    if wanted is None:
        _set_default_tensor_type(t)
    else:
        torch.set_default_dtype(wanted)


_restored: Any = torch.serialization.default_restore_location


def restore(storage: Any, location: str) -> Any:
    """For torch.load: a storage that was saved on cuda, on hpu."""
    if re.fullmatch(r"cuda(:\d+)?", location) is None:
        return None
    return _restored(storage, cuda_arguments.on_hpu(location))


_load = torch.load


@stands_for("torch.load")
@functools.wraps(_load)
def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A dict or a function as `map_location` gets the tag cuda for what was saved on hpu."""
    if isinstance(map_location, dict):
        places = {str(tag).replace("hpu", "cuda"): place for tag, place in map_location.items()}
        return load(f, lambda storage, tag: _restored(storage, places.get(tag, tag)), *args, **kwargs)
    if callable(map_location):
        return _load(f, lambda storage, tag: map_location(storage, tag.replace("hpu", "cuda")), *args, **kwargs)
    return _load(f, map_location, *args, **kwargs)


@stands_for("torch.nn.DataParallel")
class DataParallel(torch.nn.DataParallel):  # type: ignore[type-arg]
    """On the current device alone."""

    def __init__(
        self, module: torch.nn.Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__(module, [hpu.current_device()], dim=dim)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's result for the arguments, whose tensors are moved to the device."""
        device = torch.device("hpu", self.device_ids[0])
        inputs, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), (inputs, kwargs))
        return self.module(*inputs, **kwargs)


_compile = torch.compile


@stands_for("torch.compile")
def compile(model: Any = None, **kwargs: Any) -> Any:
    """torch.compile, where Inductor is hpu_backend."""
    if kwargs.get("backend") in (None, "inductor"):
        kwargs["backend"] = "hpu_backend"
        kwargs.pop("options", None)
    return _compile(model, **kwargs)


@stands_for("torch._dynamo.variables.tensor.TensorVariable.method_attr_is_cuda")
def _is_cuda_in_compiled_code() -> Any:
    from torch._dynamo.variables.base import VariableTracker

    def method_attr_is_cuda(self: Any, tx: Any) -> Any:
        return None if self.device is None else VariableTracker.build(tx, self.device.type == "hpu")

    return method_attr_is_cuda


@stands_for("torch._dynamo.trace_rules.torch_name_rule_map")
def _rules_without_cuda() -> Any:
    from torch._dynamo import trace_rules

    rules: Any = trace_rules.torch_name_rule_map
    trace_rules.get_torch_obj_rule_map.cache_clear()
    return [{name: kind for name, kind in each.items() if not name.startswith("torch.cuda.")} for each in rules]


_grad_scaler = torch.amp.GradScaler.__init__


@stands_for("torch.amp.GradScaler.__init__")
def grad_scaler(self: Any, device: str = "hpu", *args: Any, **kwargs: Any) -> None:
    """The device is hpu by default."""
    _grad_scaler(self, cuda_arguments.on_hpu(device), *args, **kwargs)


_get_backend = torch.distributed.get_backend


@stands_for("torch.distributed.get_backend")
def get_backend(group: Any = None) -> str:
    """The name of a group's backend: nccl for hccl."""
    found = _get_backend(group)
    return "nccl" if found == "hccl" else found


_profile = torch.profiler.profile.__init__


@stands_for("torch.profiler.profile.__init__")
def profile(self: Any, *args: Any, activities: Any = None, use_cuda: bool | None = None, **kwargs: Any) -> None:
    """Events of hpu where those of CUDA are asked for."""
    kinds = torch.profiler.ProfilerActivity
    if activities is not None:
        activities = [kinds.HPU if kind == kinds.CUDA else kind for kind in activities]
    if use_cuda is not None:  # the older way to ask for them
        asked = set(activities or torch.profiler.supported_activities()) - {kinds.HPU}
        activities = asked | {kinds.HPU} if use_cuda else asked
    _profile(self, *args, activities=activities, **kwargs)


_autograd_profile = torch.autograd.profiler.profile.__init__


@stands_for("torch.autograd.profiler.profile.__init__")
def autograd_profile(
    self: Any, *args: Any, use_cuda: bool = False, use_device: str | None = None, **kwargs: Any
) -> None:
    """Times of hpu where those of CUDA are asked for. Only Kineto measures them, so it is used."""
    if use_cuda or use_device == "cuda":
        use_device = "hpu"
        kwargs["use_kineto"] = True
    _autograd_profile(self, *args, use_device=use_device, **kwargs)
    self.use_cuda = use_cuda


# As NVML gives them: bytes, and percent.
Memory = namedtuple("Memory", "total free used")
Rates = namedtuple("Rates", "gpu memory")


@stands_for("pynvml.nvmlDeviceGetMemoryInfo")
def memory_info(handle: Any) -> Memory:
    """The device's memory."""
    free, total = hpu.mem_get_info(handle)
    return Memory(total, free, total - free)


@stands_for("pynvml.nvmlDeviceGetUtilizationRates")
def utilization_rates(handle: int) -> Rates:
    """The share of time in which the device ran operators, and the share of its memory in use."""
    memory = memory_info(handle)
    return Rates(hpu.utilization(handle), 100 * memory.used // memory.total)


@stands_for("apex.optimizers.FusedAdam")
def fused_adam(
    params: Any,
    lr: float = 1e-3,
    bias_correction: bool = True,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    adam_w_mode: bool = True,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    **ignored: Any,
) -> torch.optim.Optimizer:
    """AdamW, or Adam without `adam_w_mode`. ValueError without bias correction, which PyTorch's always have."""
    if not bias_correction:
        raise ValueError("FusedAdam: bias_correction=False is not supported on hpu; leave it at True")
    kind = torch.optim.AdamW if adam_w_mode else torch.optim.Adam
    return kind(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad)


@stands_for("apex.optimizers.FusedSGD")
def fused_sgd(
    params: Any,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    **ignored: Any,
) -> torch.optim.Optimizer:
    """torch.optim.SGD."""
    return torch.optim.SGD(params, lr, momentum, dampening, weight_decay, nesterov)


@stands_for("apex.optimizers.FusedLAMB")
def fused_lamb(params: Any, lr: float = 1e-3, **kwargs: Any) -> torch.optim.Optimizer:
    """Gaudi's FusedLamb, with Apex's arguments."""
    from openhpu.interface.hpex.optimizers import FusedLamb

    for name in ("adam_w_mode", "grad_averaging", "use_nvlamb"):
        kwargs.pop(name, None)
    return FusedLamb(params, lr, **kwargs)


@stands_for("torch.cuda.MemPool")
class MemPool:
    """PyTorch's compiler asks of each object whether it is one. None can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise AttributeError(refusal(ROWS["torch.cuda.MemPool"]))


@stands_for("torch.cuda.use_mem_pool")
@contextlib.contextmanager
def use_mem_pool(*args: Any, **kwargs: Any) -> Iterator[None]:
    """PyTorch's compiler asks of each function whether it is this one, or what it wraps. It can't be entered."""
    raise AttributeError(refusal(ROWS["torch.cuda.use_mem_pool"]))
    yield
