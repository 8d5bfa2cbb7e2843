"""Kernels of users' operators in Python, and the libraries of GC_KERNEL_PATH. docs/custom-ops.md is their page.

The C++ half is csrc/call/UserOperator and csrc/run/UserKernel.
"""

import functools
import importlib.metadata
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._library.custom_ops import CustomOpDef
from torch._library.utils import can_generate_trivial_fake_impl, has_tensor_arg
from torch._subclasses import fake_tensor
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.utils._pytree import tree_leaves

from openhpu import _C, settings

F = TypeVar("F", bound=Callable[..., Any])

# Distributions that run the kernels of such libraries name a function without arguments here. It calls
# `set_library_runner`.
RUNNERS = "openhpu.kernel_runners"
# Keys of which a kernel runs on fake tensors.
_METAS = ("Meta", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
# Namespaces of which PyTorch has all kernels at the key Meta.
_PYTORCH = frozenset({"aten", "prims", "profiler", "c10d", "_c10d_functional", "prim", "inductor", "higher_order"})


def custom_kernel(guid: str) -> Callable[[F], F]:
    """Decorator: the function is the kernel of user operators with this guid.

    It is called with the operator's tensors, in the order of its inputs: contiguous CPU tensors, and None for an
    optional tensor that was not given. If it takes an argument `params`, it also gets the bytes that the operator's
    callback filled. It returns a tensor, or a tuple with a tensor for each result, of the dtypes and sizes that the
    operator's callback gives. It must not change its arguments.

    In a graph the call holds Python's lock.

    Raises ValueError for a guid that has a Python kernel already. A function in C++ for the same guid goes first.
    """
    if not isinstance(guid, str) or not guid:
        raise TypeError(f"custom_kernel takes the guid of a kernel as a string, but got {guid!r}")

    def register(function: F) -> F:
        takes_params = "params" in inspect.signature(function).parameters

        def run(op: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], params: bytes) -> None:
            more = {"params": params} if takes_params else {}
            results = function(*inputs, **more)
            if isinstance(results, Tensor):
                results = (results,)
            _deliver(function.__qualname__, results, outputs)

        _C.add_python_kernel(guid, run)
        return function

    return register


def _deliver(name: str, results: Any, outputs: Sequence[Tensor]) -> None:
    """Copy what a kernel returned. TypeError or ValueError if the operator's results are others."""
    if not isinstance(results, (tuple, list)) or not all(isinstance(result, Tensor) for result in results):
        raise TypeError(f"{name} returned {type(results).__name__}; it returns a tensor or a tuple of tensors")
    if len(results) != len(outputs):
        raise ValueError(f"{name} returned {len(results)} tensors, but the operator has {len(outputs)} results")
    for k, (result, output) in enumerate(zip(results, outputs, strict=True)):
        if result.dtype is not output.dtype or result.shape != output.shape:
            raise ValueError(
                f"{name} returned {result.dtype} {tuple(result.shape)} as result {k}, but the operator's callback says "
                f"{output.dtype} {tuple(output.shape)}"
            )
        output.copy_(result)


def user_operators() -> list[dict[str, Any]]:
    """The operators that C++ libraries have registered, each with `schema`, `guid`, `legacy` (by hpu_custom_op.h),
    `calls`, `kernel`: where its kernel comes from, None before the first call, and `python`: that is a Python
    function."""
    return _C.user_operators()


def vendor_families() -> list[dict[str, str]]:
    """The guids of the vendor's library that have a kernel here, a row for each family: `name`, `dtypes`, `operands`,
    `params`, what it `computes`, and the `source`, a document that names it (docs/vendor-kernels.md)."""
    return _C.vendor_families()


def set_library_runner(address: int) -> None:
    """Set what runs the kernels of libraries that do not export `openhpu_tpc_kernels`: the address of a LibraryRunner
    (openhpu/kernel_library.h). RuntimeError for one of another version."""
    _C.set_library_runner(address)


def install() -> None:
    """Hand settings to the core, before the first operator runs."""
    _C.check_kernels(bool(settings.get("OPENHPU_CHECK_KERNELS")))
    listed = [path for path in settings.get("GC_KERNEL_PATH").split(":") if path]
    _C.set_kernel_libraries(listed)
    if any(map(os.path.exists, listed)):
        for runner in importlib.metadata.entry_points(group=RUNNERS):
            runner.load()()


def lacks_meta(op: Any) -> bool:
    """Whether the operator has a kernel for hpu, but nothing that tells its results' sizes without a run."""
    if op.namespace in _PYTORCH:
        return False
    has_kernel = functools.partial(torch._C._dispatch_has_kernel_for_dispatch_key, op.name())
    return has_kernel("HPU") and not (any(map(has_kernel, _METAS)) or can_generate_trivial_fake_impl(op))


def explain_meta(mode: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    """Raise what such an operator needs for fake tensors: the kernel that PyTorch's own error does not name."""
    namespace, name = op.namespace, op._schema.name.partition("::")[2]
    overload = f".{op._overloadname}" if op._overloadname != "default" else ""
    what: Any = (  # in the place of the operator, which is all that PyTorch's errors show
        f"{op.name()}: torch.compile, torch.export and fake tensors ask for the dtypes and sizes of its results, and "
        f"it has no kernel at the key Meta that tells them. Write one beside its kernel for HPU, a function with the "
        f"same arguments that returns at::empty(...) of these sizes: TORCH_LIBRARY_IMPL({namespace}, Meta, m) "
        f'{{ m.impl("{name}{overload}", ...); }}. Or give it in Python: @torch.library.register_fake("{op.name()}")'
    )
    raise fake_tensor.UnsupportedOperatorException(what)


def refuse_triton(op: CustomOpDef) -> None:
    """Let an operator of `torch.library.triton_op` raise NotImplementedError on hpu, until the script registers a
    kernel for hpu. With one, torch.compile takes the operator as a whole instead of the kernels in Triton."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{op._qualname} was made by torch.library.triton_op, and Triton has no backend for hpu. Give the operator "
            f'a kernel of PyTorch\'s operators for hpu: @{op._name}.register_kernel("hpu")'
        )

    if not has_tensor_arg(op._opoverload._schema):  # PyTorch chooses its kernel by an argument
        return
    op.register_kernel("hpu", refuse)
    refusing = op._backend_fns["hpu"]
    decomposed = op._torch_dispatch_fns[FunctionalTensorMode]

    def decompose(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        on_hpu = any(isinstance(t, Tensor) and t.device.type == "hpu" for t in tree_leaves((args, kwargs)))
        if not on_hpu:
            return decomposed(mode, func, types, args, kwargs)
        if op._backend_fns["hpu"] is refusing:
            refuse()
        return mode.__torch_dispatch__(func, types, args, kwargs)

    op.register_torch_dispatch(FunctionalTensorMode, decompose)


def raise_registration_errors() -> None:
    """Raise what was wrong with operators that a library has just registered. RuntimeError."""
    if errors := _C.take_registration_errors():
        raise RuntimeError("; ".join(errors))


def load_library(load: Callable[..., Any], self: Any, path: Any) -> None:
    """`torch.ops.load_library`, which also raises what was wrong with user operators: an initialiser of a library
    cannot."""
    load(self, path)
    raise_registration_errors()


__all__ = ["custom_kernel", "set_library_runner", "user_operators", "vendor_families"]
