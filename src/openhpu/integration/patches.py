"""The unavoidable patches of torch, each with its reason. Nothing else in this project changes torch, except GPU
migration, where a script asks for it (`integration/migration`).

The patches below are those of a script's process, and they stay. Inductor is patched only in the compile process, and
only while it makes a recipe. The replacements are in `compiler/inductor`:

- `VecISA.check_build` compiles a program for each instruction set to learn whether the compiler knows it. The patch
  lets the compiler parse an empty program, which tells the same.
- `codecache._precompile_header` preprocesses PyTorch's headers each time, to see whether their precompiled form is
  current. It keeps that form in Inductor's own cache. The patch uses build and compiler as the key, and keeps the form
  beside the recipes.
- `CppWrapperCpu._write_aoti_interface_header` copies the library's interface into each wrapper, where it takes most of
  the compiler's time. With the patch it is an object file that was compiled with the core. `codecache.CppBuilder` links
  it, and compiles a wrapper beside its kernels instead of before them.
- `CppWrapperCpu.generate_input_output_runtime_checks` writes checks of inputs. They take longer to compile than the
  rest of a wrapper, and they never run, because the device has checked the same integers before.
- `cpp_builder._get_os_related_cpp_cflags` gets a flag that lets the system unload a recipe's library.
- `CppVecOverrides.rand` generates random numbers one at a time, by an object with branches.
- `CppVecOverrides.exp` and `CppVecOverrides.sigmoid` call a library function for each vector and save registers around
  the call.
- `CppVecOverrides.expm1` takes the exponential less one, which is 0 near 0.
- `CppKernel.get_to_dtype_expr`, `CppVecKernel.get_to_dtype_expr` and `SymPyOps.to_dtype` convert floats that do not fit
  into an integer otherwise than the CPU's kernels. `SymPyOps.to_dtype`, `lowering._full` and
  `TypedExpr.__post_init__` keep digits of a constant that its dtype does not have.
- `CppWrapperCpu.generate_c_shim_extern_kernel_call`, `CppWrapperCpu.generate_fallback_kernel_with_runtime_lookup_aot`,
  `KernelGroup.call_kernel` and `CppTemplateKernel.call_kernel` mark each kernel for traces, with one load and one
  branch. Inductor's own marks cost an allocation each.
- `CppKernel.store` and `CppVecKernel.store` write at indices from a tensor, but not at an index below zero. Loops that
  add there run on one thread: `CppKernel.decide_parallel_depth` and `OuterLoopFusedKernel.decide_parallel_depth`.
- `lowering.mutate_to` lets a loop overwrite a buffer that the same loop reads at other places, where the source is a
  view of a result.
- `cpp.stride_at_vec_range` simplifies each index with SymPy. For a sum of variables with constant factors, the patch
  takes the factor.
- `post_grad.is_gpu`, `post_grad.is_pointwise_use` and `entry.extra_check`, of the pattern of a product with a bias,
  decide whether generated code adds the bias instead of the product's library.
- `reinplace.inplaceable_ops` holds only the writes of rows into an argument, while torch.compile's backend lets a pass
  of Inductor rewrite a graph (`capture/torch_compile/in_place.py`).

The patches of DeepSpeed wait for its import. They are in `openhpu/integration/deepspeed.py`.
"""

import contextlib
import functools
import importlib
import threading
import warnings
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch._subclasses import fake_impls, fake_tensor
from torch.utils import _foreach_utils

from openhpu import _C
from openhpu.device import mode
from openhpu.device.arguments import _get_device_index
from openhpu.integration import checkpoints, deepspeed, fused_optimizers, shared_tensors
from openhpu.integration.late_imports import after_import
from openhpu.interface import custom_ops, hpu
from openhpu.interface.gaudi_ops import namespace
from openhpu.observe.profiler import debug_activities, tables


def apply() -> None:
    """Apply every patch, once, when the device is registered."""
    for patch in _patches:
        patch()
    _tensor_names()
    _foreach()
    _higher_order_autocast()
    _fake_strides()
    fake_impls.register_op_impl(custom_ops.lacks_meta)(custom_ops.explain_meta)  # type: ignore[no-untyped-call]
    _compile_support()
    _backward_without_memory()
    _monitored_barrier()
    _profiled_events()
    _one_card_of_accelerate()
    namespace.install()  # torch.ops.hpu, an attribute that PyTorch would make when it is asked for
    fused_optimizers.install()  # a public hook of torch.optim, no patch
    checkpoints.install()  # and one of torch.load
    shared_tensors.install()  # and one of multiprocessing
    deepspeed.install()
    mode.before_lazy.append(_moved_gradients)


def _around(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Decorator of what takes the place of a function: it gets that one as its first argument."""
    original = getattr(owner, name)

    def put(function: Callable[..., Any]) -> None:
        @functools.wraps(original)  # others read the arguments' names from the signature
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(original, *args, **kwargs)

        setattr(owner, name, call)

    return put


_patches: list[Callable[[], None]] = []  # for `apply`


def _patch(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Decorator: `_around` this function of PyTorch's, from `apply` on."""
    return lambda function: _patches.append(lambda: _around(owner, name)(function))


def _around_backward(function: Callable[..., Any]) -> None:
    """Decorator: `_around` what each backward from Python calls, under both names that PyTorch has for it."""
    _around(torch.autograd.graph, "_engine_run_backward")(function)
    torch.autograd._engine_run_backward = torch.autograd.graph._engine_run_backward  # type: ignore[attr-defined]


def _moved_gradients() -> None:
    """In lazy mode an operand on the CPU is moved, and its gradient comes back: see csrc/call/MovedOperands.

    A backward may follow the call at once, and PyTorch has no hook for its beginning.
    """

    @_around_backward
    def run(original: Any, *args: Any, **kwargs: Any) -> Any:
        _C.return_moved_gradients()
        return original(*args, **kwargs)


@_patch(torch.random, "_seed_custom_device")
def _seed(original: Any, seed: int) -> None:
    """torch.manual_seed and torch.seed know the devices by name, and hpu is not among them. Both call this."""
    if not hpu._is_in_bad_fork():
        hpu.manual_seed_all(seed)
    original(seed)


def _backward_without_memory() -> None:
    """A backward of tensors of hpu that have no memory (FakeTensorMode, wrappers) opens no device, and PyTorch's engine
    has threads for hpu only once a device is open. Without them it would crash."""

    @_around_backward
    def run(original: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if _C.may_note_tensors() and _has_hpu(outputs):
            _C.open_for_autograd()
        return original(outputs, *args, **kwargs)


def _has_hpu(outputs: Any) -> bool:
    """Whether a gradient of the graph that leads to `outputs` (tensors or edges) is on hpu."""
    nodes = [one.grad_fn if isinstance(one, torch.Tensor) else one.node for one in outputs]
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        if node is None:
            continue
        if any(noted.device.type == "hpu" for noted in node._input_metadata):
            return True
        fresh = {following for following, _ in node.next_functions} - seen
        seen |= fresh
        nodes += fresh
    return False


@_patch(torch.accelerator, "current_stream")
def _asked_stream(original: Any, *args: Any, **kwargs: Any) -> torch.Stream:
    """Autograd asks for the current stream of each tensor that it notes, and so does Dynamo for each function on the
    CPU. `_backward_without_memory` shall look at graphs for the former alone."""
    if _C.is_initialized():
        return original(*args, **kwargs)
    before = _C.script_asks(True)
    try:
        return original(*args, **kwargs)
    finally:
        _C.script_asks(before)


def _tensor_names() -> None:
    """`hpu` and `is_hpu` exist for storages only; Gaudi scripts use them on tensors, modules and sequences."""

    def tensor_hpu(
        self: torch.Tensor,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> torch.Tensor:
        """hpu(device=None, non_blocking=False, memory_format=torch.preserve_format) -> Tensor

        A copy of this tensor on `device` (default: the current hpu device), or the tensor itself if it is there.
        """
        index = _get_device_index(device, optional=True)
        return self.to(torch.device("hpu", index), non_blocking=non_blocking, memory_format=memory_format)

    def module_hpu(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
        """Move all parameters and buffers to `device` (default: the current hpu device); returns the module."""
        return self._apply(lambda tensor: tensor.hpu(device))  # type: ignore[no-any-return, no-untyped-call]

    def sequence_hpu(self: Any, *args: Any, **kwargs: Any) -> Any:
        """The packed sequence on the current hpu device, or on `device`."""
        if not args and "device" not in kwargs:
            kwargs["device"] = torch.device("hpu", hpu.current_device())
        return self.to(*args, **kwargs)

    tensor_hpu.__name__ = module_hpu.__name__ = sequence_hpu.__name__ = "hpu"
    tensor: Any = torch.Tensor
    tensor.hpu = tensor_hpu
    tensor.is_hpu = property(lambda self: self.device.type == "hpu", doc="Whether the tensor is on an hpu device.")
    module: Any = torch.nn.Module
    module.hpu = module_hpu
    sequence: Any = torch.nn.utils.rnn.PackedSequence
    sequence.hpu = sequence_hpu
    sequence.is_hpu = property(lambda self: self.data.device.type == "hpu", doc="Whether the data is on an hpu device.")


@_patch(torch, "set_num_threads")
def _set_num_threads(original: Any, nthreads: int, /) -> None:
    """The device's worker runs kernels with as many threads as torch.set_num_threads allows on the host."""
    original(nthreads)
    _C.set_num_threads(nthreads)


def _foreach() -> None:
    """The list of devices with foreach kernels lacks hpu: optimizers and gradient clipping would loop."""

    @_around(_foreach_utils, "_get_foreach_kernels_supported_devices")
    def supported(original: Any) -> list[str]:
        return [*original(), "hpu"]

    module: Any = importlib.import_module("torch.optim.optimizer")
    module._get_foreach_kernels_supported_devices = _foreach_utils._get_foreach_kernels_supported_devices


@_patch(torch._ops._Ops, "load_library")
def _load_library(original: Any, self: Any, path: Any) -> None:
    """An initialiser of a library cannot raise what is wrong with a user operator that it registers."""
    custom_ops.load_library(original, self, path)


@_patch(torch.library, "triton_op")
def _triton_op(original: Any, name: str, fn: Any = None, /, **more: Any) -> Any:
    """PyTorch registers kernels in Triton for every device, and Triton has no backend for hpu."""
    if fn is None:
        return lambda fn: _triton_op_on_hpu(original(name, fn, **more))
    return _triton_op_on_hpu(original(name, fn, **more))


def _triton_op_on_hpu(op: Any) -> Any:
    custom_ops.refuse_triton(op)
    return op


@_patch(torch._utils, "_get_available_device_type")
def _available_device_type(original: Any) -> str | None:
    """It knows devices by name; without hpu, DistributedDataParallel rejects torch.device("hpu")."""
    found: str | None = original()
    return "hpu" if found is None and hpu.is_available() else found


@_patch(torch._utils, "_get_device_attr")
def _device_attribute(original: Any, get_member: Any) -> Any:
    """It knows devices by name, too."""
    return get_member(hpu) if torch._utils._get_available_device_type() == "hpu" else original(get_member)


@_patch(torch.Tensor, "new")
def _new_sparse(original: Any, self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Tensor.new, which sparse optimizers use, knows sparse tensors by device name and refuses hpu's."""
    if self.layout is torch.sparse_coo and self.device.type == "hpu" and not kwargs:
        if not args:
            return torch.sparse_coo_tensor(size=(0,), dtype=self.dtype, device=self.device)  # type: ignore[call-arg]
        return torch.sparse_coo_tensor(*args, dtype=self.dtype, device=self.device)
    return original(self, *args, **kwargs)  # type: ignore[no-any-return]


@_patch(importlib.import_module("torch._tensor_str"), "_tensor_str")
def _text(original: Any, self: torch.Tensor, indent: int) -> str:
    """A tensor's text is made by double operators on its device: CPU fallbacks, and a wait for each. Read it once."""
    if self.device.type == "hpu" and self.layout is torch.strided and not self.is_nested:
        self = self.detach().cpu()
    return original(self, indent)  # type: ignore[no-any-return]


for _name in ("data_ptr", "resize_", "_write_file", "copy_", "fill_"):

    @_patch(torch.UntypedStorage, _name)
    def _with_memory(original: Any, *args: Any, **kwargs: Any) -> Any:
        """These take a storage without memory for an invalid one, before its materializer is asked (lazy mode)."""
        for one in (*args, *kwargs.values()):  # and what is copied from
            if isinstance(one, torch.UntypedStorage) and one.device.type == "hpu":
                _C.require_storage(one)
        return original(*args, **kwargs)


@_patch(fake_tensor.FakeTensorMode, "__init__")
def _init_fake_mode(original: Any, *args: Any, **kwargs: Any) -> None:
    """Autocast's lists are registered before the first operator, and fake tensors alone never come to one."""
    from openhpu.interface import autocast_lists

    autocast_lists.install()
    original(*args, **kwargs)


def _higher_order_autocast() -> None:
    """Under autocast a higher-order operator, such as torch.cond, needs a rule for the device type, or leave to pass
    the key by. PyTorch lists the other devices' keys only. One that has a rule for CUDA gets the same rule for hpu."""
    if _AUTOCAST in torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS:
        return  # a PyTorch that lists it
    torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(_AUTOCAST)
    for operator in torch._ops._higher_order_ops.values():
        if rule := operator.py_kernels.get(_AUTOCAST_CUDA):
            _autocast_as_cuda(operator, rule)
        elif _AUTOCAST not in operator.py_kernels:
            operator.fallthrough(_AUTOCAST)

    @_around(torch._ops.HigherOrderOperator, "py_impl")
    def py_impl(original: Any, self: Any, key: Any) -> Any:
        if key == _AUTOCAST and self in _autocast_rules:  # its own, in the place of CUDA's
            _autocast_rules.remove(self)
            del self.py_kernels[key]
            self._dispatch_cache.clear()
        register = original(self, key)
        if key != _AUTOCAST_CUDA:
            return register

        def register_both(rule: Any) -> Any:
            registered = register(rule)
            if _AUTOCAST not in self.py_kernels:
                _autocast_as_cuda(self, rule)
            return registered

        return register_both


_AUTOCAST = torch._C.DispatchKey.AutocastHPU  # type: ignore[attr-defined]
_AUTOCAST_CUDA = torch._C.DispatchKey.AutocastCUDA
# Higher-order operators whose rule for hpu is that for CUDA.
_autocast_rules: weakref.WeakSet[Any] = weakref.WeakSet()


def _autocast_as_cuda(operator: Any, rule: Callable[..., Any]) -> None:
    def for_hpu(*args: Any, **kwargs: Any) -> Any:
        # The rule excludes CUDA's key and casts for the device of its tensors; then it calls the operator again.
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_AUTOCAST)):
            return rule(*args, **kwargs)

    operator.py_impl(_AUTOCAST)(for_hpu)
    _autocast_rules.add(operator)


def _fake_strides() -> None:
    """Fake tensors on hpu have contiguous results only. Kernels here keep strides as on the CPU; traces must agree."""
    for name in ("torch._subclasses.fake_impls", "torch._refs"):
        module: Any = importlib.import_module(name)
        module.is_noncontiguous_supported = lambda device: True


def _compile_support() -> None:
    """torch.compile has registries for backends and devices, but scripts that don't compile never import it."""

    def call(name: str) -> Callable[[], None]:
        return lambda: getattr(importlib.import_module("openhpu.integration.dynamo"), name)()

    after_import("torch._dynamo.backends.registry", call("register_backend"))
    # Dynamo's interface of the device, which the module registers at its end: it may be the one that imports Dynamo.
    register = functools.partial(importlib.import_module, "openhpu.integration.dynamo_interface")
    after_import("torch._dynamo.device_interface", register)
    after_import("torch._dynamo.decorators", call("keep_out"))
    after_import("torch._inductor.codegen.common", call("refuse_inductor"))
    after_import("torch._dynamo.variables.streams", _queries_in_compiled_code)


def _queries_in_compiled_code() -> None:
    """Dynamo keeps the answer that `query` gave while it traced. On hpu a query ends the graph, and each call asks."""
    from torch._dynamo.exc import unimplemented
    from torch._dynamo.variables.streams import EventVariable, StreamVariable

    for kind in (StreamVariable, EventVariable):

        @_around(kind, "call_method")
        def method(original: Any, self: Any, tx: Any, name: str, *arguments: Any) -> Any:
            if name == "query" and self.value.device.type == "hpu":
                unimplemented(
                    gb_type="query of an hpu stream or event",
                    context=f"query of {self.value}",
                    explanation="What it answers changes from call to call, and a graph keeps what it was traced with.",
                    hints=["Ask outside of the compiled function, or leave fullgraph at False."],
                )
            return original(self, tx, name, *arguments)


def _one_card_of_accelerate() -> None:
    """accelerate spreads a model (`device_map="auto"`) over all of a process's devices, but puts the parameters of each
    on the current one, since a process on a Gaudi has one card. Inputs for other devices would not find them there."""

    def patch() -> None:
        modeling: Any = importlib.import_module("accelerate.utils.modeling")

        @_around(modeling, "get_max_memory")
        def memory(original: Any, max_memory: dict[int | str, int | str] | None = None) -> dict[int | str, int]:
            found: dict[int | str, int] = original(max_memory)
            if max_memory is not None or not modeling.is_hpu_available():
                return found
            return {key: size for key, size in found.items() if key in (hpu.current_device(), "cpu", "disk")}

    after_import("accelerate.utils.modeling", patch)


def _monitored_barrier() -> None:
    """torch.distributed refuses it for every backend whose name is not gloo, and asks for the CPU's."""
    if not torch.distributed.is_available():
        return
    c10d: Any = importlib.import_module("torch.distributed.distributed_c10d")

    @_around(c10d, "monitored_barrier")
    def barrier(original: Any, group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> Any:
        if c10d._rank_not_in_group(group) or "hpu:hccl" not in c10d.get_backend_config(group).split(","):
            return original(group, timeout, wait_all_ranks)
        if timeout is None:
            timeout = c10d._get_default_timeout("gloo")
        elif isinstance(timeout, float):
            timeout = timedelta(seconds=timeout)
        c10d._check_valid_timeout(timeout)
        backend = c10d._group_or_default_group(group)._get_backend(torch.device("hpu"))
        return backend.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    torch.distributed.monitored_barrier = c10d.monitored_barrier


def _profiled_events() -> None:
    """Tables of profiled operators know accelerators by name: without hpu, `table()` fails as soon as there is a device
    event, operators have no device time, and no column can be sorted by. And they know no events within events on a
    device, which recipes and graphs have: times would count twice."""
    profiler: Any = importlib.import_module("torch.autograd.profiler")
    util: Any = importlib.import_module("torch.autograd.profiler_util")
    profiler.DeviceType = util.DeviceType = tables.DeviceTypes()
    self_time = util.FunctionEvent.self_device_time_total

    @_around(util, "_build_table")
    def table(original: Any, events: Any, sort_by: str | None = None, *args: Any, **kwargs: Any) -> str:
        key = sort_by and sort_by.replace("hpu", "device")  # "self_hpu_time_total" is "self_device_time_total"
        return original(events, key, *args, **kwargs)  # type: ignore[no-any-return]

    @_around(util.EventList, "export_stacks")
    def stacks(original: Any, self: Any, path: str, metric: str) -> None:
        original(self, path, "self_xpu_time_total" if metric == "self_hpu_time_total" else metric)

    @_around(util.EventList, "supported_export_stacks_metrics")
    def metrics(original: Any, self: Any) -> list[str]:
        return [*original(self), "self_hpu_time_total"]

    @_around(util.EventList, "_build_tree")
    def tree(original: Any, self: Any) -> None:
        original(self)
        tables.note_parts(self)

    def self_device_time_total(self: Any) -> float:
        return self_time.fget(self) - getattr(self, "hpu_parts_us", 0.0)  # type: ignore[no-any-return]

    util.FunctionEvent.self_device_time_total = property(self_device_time_total, doc=self_time.__doc__)


# The end of a profile waits for the device, where an operator's error may come up. PyTorch then leaves the profiler on,
# and what was recorded is lost. It is lost silently where one begins within another, or ends in another thread.
_profile: Any = importlib.import_module("torch.autograd.profiler").profile


@_patch(_profile, "_prepare_trace")
def _prepare_profile(original: Any, self: Any) -> None:
    if self.use_device == "hpu" and torch.autograd._profiler_enabled():
        raise RuntimeError(
            "A profile with ProfilerActivity.HPU was to begin while another one is recorded, which would be lost. "
            "End that one first, or mark the part with torch.profiler.record_function."
        )
    original(self)


@_patch(_profile, "_start_trace")
def _start_profile(original: Any, self: Any) -> None:
    original(self)
    self._hpu_thread = threading.get_ident()


@_patch(_profile, "__exit__")
def _end_profile(original: Any, self: Any, *exception: Any) -> Any:
    begun_in = getattr(self, "_hpu_thread", None)
    if begun_in not in (None, threading.get_ident()) and not torch.autograd._profiler_enabled():
        raise RuntimeError("The profile was begun in another thread: end it there.")
    try:
        return original(self, *exception)
    except BaseException:
        if self.use_device == "hpu" and self.enabled and self.kineto_results is None:
            with contextlib.suppress(Exception):
                original(self, *exception)
        raise


@_patch(importlib.import_module("torch.profiler.profiler").profile, "__init__")
def _init_profile(original: Any, *args: Any, **kwargs: Any) -> None:
    """Gaudi's torch.profiler.profile takes `debug_activities`, and PyTorch's refuses it."""
    debug_activities.check(kwargs.pop("debug_activities", None))
    original(*args, **kwargs)


@_patch(importlib.import_module("torch.autograd.profiler").emit_nvtx, "__enter__")
def _enter_nvtx(original: Any, self: Any) -> Any:
    """emit_nvtx writes marks for NVIDIA's tools, and fails without them; scripts have it around a training loop."""
    if self.enabled and not torch.cuda.is_available():
        warnings.warn(
            "torch.autograd.profiler.emit_nvtx marks nothing: there is no CUDA device. Use torch.profiler.profile "
            "with ProfilerActivity.HPU, or HABANA_PROFILE=1.",
            stacklevel=3,
        )
        self.enabled = False
    return original(self)
