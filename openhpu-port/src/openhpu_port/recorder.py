"""What the modules and lines of a running script compute, with their gradients, for `openhpu compare`.

A TorchFunctionMode sees functions, a TorchDispatchMode random draws, and hooks see modules. In this process seeds of a
device are those of the CPU, whose generator draws all random numbers.
"""

from __future__ import annotations

import contextlib
import pickle
import random
import sys
import sysconfig
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

MOST_ELEMENTS = 1 << 16  # of a tensor, evenly spaced
_MOST_BYTES = 512 << 20  # of a script; what comes later is not recorded
_PENDING, _PENDING_BYTES = 256, 64 << 20  # on the device, before they are read
_EMPTY = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
_LIBRARIES = (
    *(f"{Path(sys.modules[name].__file__ or '').parent}/" for name in ("torch", "openhpu", "openhpu_port")),
    "/habana_frameworks/",
    "<",
)


class Recorder:
    """Records from now on, into `file`, a pickle for each record. `end` writes the rest."""

    def __init__(self, file: str, script: str, seed: int) -> None:
        self._file = open(file, "wb", buffering=0)  # noqa: SIM115
        self._script, self._folder = script, f"{Path(script).parent}/"
        self._stack: list[str] = [""]  # modules whose forward runs
        self._names: WeakKeyDictionary[torch.nn.Module, str] = WeakKeyDictionary()
        self._parameters: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # their names
        self._made: Any = WeakTensorKeyDictionary()  # tensors that left no line yet: about the one that made them
        self._runs: Counter[Any] = Counter()
        self._run: Any = None
        self._pending: list[tuple[dict[str, Any], list[Any]]] = []
        self._bytes = self._sequence = 0
        self._busy = self._listens = False
        self._failed: dict[str, Any] = {}
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        modules.register_module_forward_pre_hook(self._enter)
        modules.register_module_forward_hook(self._leave, always_call=True)
        optimizers.register_optimizer_step_pre_hook(lambda *given: self._step("gradient at the step", *given))
        optimizers.register_optimizer_step_post_hook(lambda *given: self._step("after the step", *given))
        _Draws().__enter__()
        _Functions(self).__enter__()

    def end(self, error: str) -> None:
        """Write what is left. `error`: of the script, or empty."""
        if self._listens:
            with contextlib.suppress(RuntimeError):
                torch.hpu.synchronize()  # reports indices
        for tensor, about in list(self._made.items()):
            self._record(about, [tensor])
        self._flush()
        self._dump({"kind": "end", "error": error, **(self._failed if error else {})}, [])

    # What happens.

    def call(self, function: Any, arguments: Any, result_of: Any) -> Any:
        """A function of PyTorch is called. Those that the line before has made leave it."""
        if self._busy or _captures():
            return result_of()
        about = self._about(str(resolve_name(function) or getattr(function, "__name__", "")))
        self._consume(arguments, about)
        try:
            result = result_of()
        except Exception:
            self._failed = about
            raise
        made = arguments[0][:1] if about["op"].endswith("__setitem__") else result
        if not about["op"].endswith("grad.__get__"):
            for at, tensor in enumerate(_tensors(made)):
                about["autocast"] = _autocast(tensor.device.type)
                self._made[tensor] = {**about, "at": at}
                self._listen(tensor)
        return result

    def _about(self, op: str) -> dict[str, Any]:
        place, module = self._place(), self._stack[-1]
        if self._run != (module, place):
            self._run = module, place
            self._runs[self._run] += 1
        self._sequence += 1
        return {"kind": "line", "module": module, "place": place, "run": self._runs[self._run], "op": op,
                "sequence": self._sequence}  # fmt: skip

    def _place(self) -> tuple[str, int]:
        """The innermost line of the script's folder, or else of a library other than PyTorch and OpenHPU."""
        frame: FrameType | None = sys._getframe(2)
        other = ("", 0)
        standard = sysconfig.get_paths()["stdlib"]
        while frame:
            name = frame.f_code.co_filename
            packaged = "site-packages" in name
            if name == self._script:
                return "", frame.f_lineno
            if name.startswith(self._folder) and not packaged:
                return name.removeprefix(self._folder), frame.f_lineno
            if not other[1] and not any(one in name for one in _LIBRARIES) and (
                packaged or not name.startswith(standard)
            ):  # fmt: skip
                other = name, frame.f_lineno
            frame = frame.f_back
        return other

    def _consume(self, values: Any, by: dict[str, Any]) -> None:
        for tensor in _tensors(values):
            about = self._made.pop(tensor, None)
            if about and (about["module"], about["place"]) != (by["module"], by["place"]):
                self._record(about, [tensor])

    def _enter(self, module: torch.nn.Module, values: Any) -> None:
        if module not in self._names:
            self._name(module)
        about = self._about("")
        self._consume(values, {**about, "module": self._names[module]})
        self._stack.append(self._names[module])

    def _name(self, root: torch.nn.Module) -> None:
        """Names of a module that no other one called, and of those below: by the variable, or else the class."""
        found = vars(sys.modules["__main__"]).items()
        kind = type(root).__name__
        name = next((name for name, value in found if value is root), "") or f"{kind}#{self._runs[kind]}"
        self._runs[kind] += 1
        for below, one in root.named_modules():
            self._names.setdefault(one, f"{name}.{below}".replace("._orig_mod", "").rstrip("."))
        for below, parameter in root.named_parameters():
            if parameter not in self._parameters and type(parameter) is torch.nn.Parameter:
                self._parameters[parameter] = full = f"{name}.{below}".replace("._orig_mod", "")
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(lambda p, full=full: self._gradient(p, full))

    def _gradient(self, parameter: torch.Tensor, full: str) -> None:
        module, _, name = full.rpartition(".")
        self._note("weight", module, ("", 0), [parameter.grad], op=f"gradient of {name}")

    def _leave(self, module: torch.nn.Module, _values: Any, result: Any) -> None:
        name = self._stack.pop()
        if result is not None and not _captures():
            tensors = _tensors(result)
            for tensor in tensors:
                self._made.pop(tensor, None)
            self._note("output", name, self._place(), tensors, op=type(module).__name__)

    def _step(self, what: str, optimizer: Any, *_: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                value = parameter.grad if "gradient" in what else parameter
                module, _, name = self._parameters.get(parameter, "").rpartition(".")
                self._note("step", module, self._place(), [value], op=f"{name} {what}")

    def _note(self, kind: str, module: str, place: tuple[str, int], values: list[Any], op: str) -> None:
        self._sequence += 1
        key = kind, module, op
        self._runs[key] += 1
        device = next((one.device.type for one in values if one is not None), "cpu")
        self._record({"kind": kind, "module": module, "place": place, "run": self._runs[key], "op": op, "at": 0,
                      "sequence": self._sequence, "autocast": _autocast(device)}, values)  # fmt: skip

    def _listen(self, tensor: torch.Tensor) -> None:
        if not self._listens and tensor.device.type == "hpu":
            self._listens = True
            from openhpu.observe import events

            for kind in ("indices_out_of_range", "int64_overflow"):
                events.subscribe(kind, lambda event: self._dump(
                    {"kind": event.kind, "site": event.site, "params": event.params}, []))  # fmt: skip

    # What is kept.

    def _record(self, about: dict[str, Any], tensors: list[Any]) -> None:
        found = _tensors(tensors)
        if not found or self._bytes > _MOST_BYTES or _captures():
            return
        self._busy = True
        try:
            with torch.no_grad():
                self._pending.append((about, [self._kept(one) for one in found]))
        finally:
            self._busy = False
        for at, tensor in enumerate(found):
            if about["kind"] in ("line", "output") and tensor.requires_grad and not tensor.is_leaf:
                more = {"kind": "gradient", "at": (about["at"], at)}
                tensor.register_hook(lambda value, more=more: self._backward({**about, **more}, value))
        if len(self._pending) >= _PENDING or self._waiting > _PENDING_BYTES:
            self._flush()

    _waiting = 0  # bytes

    def _backward(self, about: dict[str, Any], value: torch.Tensor) -> None:
        self._sequence += 1
        self._record({**about, "sequence": self._sequence}, [value])

    def _kept(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        flat = tensor.detach().reshape(-1)
        kept = flat[:: max(1, -(-flat.numel() // MOST_ELEMENTS))].clone()
        size = kept.numel() * kept.element_size()
        self._bytes += size
        self._waiting += size
        return str(tensor.dtype), tuple(tensor.shape), tensor.device.type, tensor.requires_grad, kept

    def _flush(self) -> None:
        self._busy, pending = True, self._pending
        self._pending, self._waiting = [], 0
        try:
            for about, values in pending:
                self._dump(about, [(*rest, torch.Tensor.cpu(kept)) for *rest, kept in values])
        finally:
            self._busy = False

    def _dump(self, about: dict[str, Any], values: list[Any]) -> None:
        self._file.write(pickle.dumps((about, values)))


class _Functions(TorchFunctionMode):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return self._recorder.call(function, (args, kwargs), lambda: function(*args, **kwargs))


class _Draws(TorchDispatchMode):
    """Random numbers come from the CPU's generator, whatever the device, and memory begins as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self._generators: WeakKeyDictionary[torch.Generator, torch.Generator] = WeakKeyDictionary()
        for name in ("hpu", "cuda", "xpu"):
            device = getattr(torch, name, None)
            if device is not None:  # the script's seeds of the device
                device.manual_seed = device.manual_seed_all = _seed

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in function.tags or _captures():
            result = function(*args, **kwargs)
            return result.zero_() if function.overloadpacket.__name__ in _EMPTY and not _captures() else result
        given = [*args, *kwargs.values()]
        devices = [one.device for one in tree_leaves(given) if isinstance(one, torch.Tensor)]
        device = torch.device(kwargs["device"]) if kwargs.get("device") else next(iter(devices), torch.device("cpu"))
        if device.type == "cpu":
            return function(*args, **kwargs)
        on_cpu, options = tree_map(self._moved, (args, kwargs))
        result = function(*on_cpu, **options)
        written = [
            at for at, one in enumerate(function._schema.arguments) if one.alias_info and one.alias_info.is_write
        ]
        if written:
            target = args[written[0]] if written[0] < len(args) else kwargs["out"]
            return target.copy_(result)
        return tree_map(lambda one: one.to(device) if isinstance(one, torch.Tensor) else one, result)

    def _moved(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.cpu()
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if isinstance(value, torch.Generator) and value.device.type != "cpu":
            if value not in self._generators:
                self._generators[value] = torch.Generator().manual_seed(value.initial_seed())
            return self._generators[value]
        return value


def _seed(seed: int) -> None:
    torch.default_generator.manual_seed(int(seed))


def _tensors(values: Any) -> list[torch.Tensor]:
    """Those with values that can be read."""
    return [one for one in tree_leaves(values) if type(one) in (torch.Tensor, torch.nn.Parameter)
            and one.layout is torch.strided and one.device.type != "meta" and one.numel()]  # fmt: skip


def _captures() -> bool:
    """Whether a graph of the device is being captured, in which no value can be read."""
    hpu = getattr(torch, "hpu", None)
    return bool(hpu is not None and hpu.is_initialized() and hpu.is_current_stream_capturing())


def _autocast(device: str) -> str:
    on = torch.is_autocast_enabled(device)
    return str(torch.get_autocast_dtype(device)) if on else ""
