"""What the modules and lines of a running script compute, with their gradients, for `openhpu compare`.

A TorchFunctionMode sees functions, a TorchDispatchMode random draws, and hooks see modules. In this process seeds of a
device are those of the CPU, whose generator draws all random numbers.
"""

import contextlib
import pickle
import random
import sys
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
_PENDING = 256  # records on the device, before they are read
_PENDING_BYTES = 64 << 20  # and their bytes
_EMPTY = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


class Recorder(TorchFunctionMode):
    """Records from now on, into `file`, a pickle of a dictionary for each record. `end` writes the rest.

    The result of a line is what a function there returned, once another line or module uses it.
    """

    def __init__(self, file: str, script: str, seed: int) -> None:
        super().__init__()
        self._file = open(file, "wb", buffering=0)  # noqa: SIM115
        self._script = script
        self._folder = f"{Path(script).parent}/"
        self._stack = [""]  # modules whose forward runs
        self._names: WeakKeyDictionary[torch.nn.Module, str] = WeakKeyDictionary()
        self._parameters: Any = WeakTensorKeyDictionary()  # their names
        self._made: Any = WeakTensorKeyDictionary()  # what no other line has used yet: its record
        self._runs: Counter[Any] = Counter()
        self._run: Any = None
        self._pending: list[dict[str, Any]] = []
        self._bytes = self._waiting = self._sequence = 0
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
        self.__enter__()

    def end(self, error: str) -> None:
        """Write what is left. `error`: of the script, or empty."""
        if self._listens:
            with contextlib.suppress(RuntimeError):
                torch.accelerator.synchronize()  # the device reports indices
        for tensor, record in list(self._made.items()):
            self._record(record, [tensor])
        self._flush()
        self._write({**(self._failed if error else {}), "kind": "end", "error": error})

    # What happens.

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._busy or _captures():
            return function(*args, **kwargs)
        op = str(resolve_name(function) or getattr(function, "__name__", ""))
        record = self._new(op, (args, kwargs), self._stack[-1])
        try:
            result = function(*args, **kwargs)
        except Exception:
            self._failed = record
            raise
        if not op.endswith("grad.__get__"):
            for tensor in _tensors(args[0] if op.endswith("__setitem__") else result):
                self._made[tensor] = {**record, "autocast": _autocast(tensor)}
                self._listen(tensor)
        return result

    def _new(self, op: str, used: Any, module: str) -> dict[str, Any]:
        """The record of a line. What it uses, and another one made, is recorded."""
        key = module, self._place()
        if self._run != key:
            self._run = key
            self._runs[key] += 1
        for tensor in _tensors(used):
            record = self._made.pop(tensor, None)
            if record and (record["module"], record["place"]) != key:
                self._record(record, [tensor])
        self._sequence += 1
        return dict(
            zip(
                ("kind", "module", "place", "run", "op", "sequence"),
                ("line", *key, self._runs[key], op, self._sequence),
                strict=True,
            )
        )

    def _place(self) -> tuple[str, int]:
        """The innermost line in the script's folder."""
        frame: FrameType | None = sys._getframe(2)
        while frame:
            name = frame.f_code.co_filename
            if name.startswith(self._folder) and "site-packages" not in name:
                return "" if name == self._script else name.removeprefix(self._folder), frame.f_lineno
            frame = frame.f_back
        return "", 0

    def _enter(self, module: torch.nn.Module, values: Any) -> None:
        if module not in self._names:
            self._name(module)
        self._new("", values, self._names[module])
        self._stack.append(self._names[module])

    def _name(self, root: torch.nn.Module) -> None:
        """Name a module that no other one called, and those below: by the variable, or else the class."""
        kind = type(root).__name__
        variables = vars(sys.modules["__main__"]).items()
        name = next((name for name, value in variables if value is root), f"{kind}#{self._runs[kind]}")
        self._runs[kind] += 1
        for below, one in root.named_modules():
            self._names.setdefault(one, f"{name}.{below}".replace("._orig_mod", "").rstrip("."))
        for below, parameter in root.named_parameters():
            if parameter not in self._parameters and type(parameter) is torch.nn.Parameter:
                self._parameters[parameter] = f"{name}.{below}".replace("._orig_mod", "")
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(
                        lambda one: self._note("weight", self._parameters[one], "gradient", [one.grad])
                    )

    def _leave(self, module: torch.nn.Module, _: Any, result: Any) -> None:
        name = self._stack.pop()
        tensors = _tensors(result)
        for tensor in tensors:
            self._made.pop(tensor, None)
        self._note("output", f"{name}.{type(module).__name__}", "output", tensors)

    def _step(self, what: str, optimizer: Any, *_: Any) -> None:
        for parameter in (one for group in optimizer.param_groups for one in group["params"]):
            value = parameter.grad if "gradient" in what else parameter
            self._note("step", self._parameters.get(parameter, ""), what, [value])

    def _note(self, kind: str, full: str, what: str, tensors: list[Any]) -> None:
        """Record what a module, a parameter or an optimizer has now."""
        module, _, name = full.rpartition(".")
        key = (kind, full, what)
        self._sequence += 1
        self._runs[key] += 1
        found = _tensors(tensors)
        self._record(
            {
                "kind": kind,
                "module": module,
                "place": self._place(),
                "run": self._runs[key],
                "op": f"{what} of {name}",
                "sequence": self._sequence,
                "autocast": _autocast(found[0]) if found else "",
            },
            found,
        )

    def _listen(self, tensor: torch.Tensor) -> None:
        if not self._listens and tensor.device.type == "hpu":
            self._listens = True
            from openhpu.observe import events

            for kind in ("indices_out_of_range", "int64_overflow"):
                events.subscribe(kind, lambda event: self._write({"kind": event.kind, "params": event.params}))

    # What is kept.

    def _record(self, record: dict[str, Any], tensors: list[torch.Tensor]) -> None:
        if not tensors or self._bytes > _MOST_BYTES or _captures():
            return
        busy, self._busy = self._busy, True
        with torch.no_grad():
            self._pending.append({**record, "values": [self._kept(one) for one in tensors]})
        self._busy = busy
        for tensor in tensors:
            if record["kind"] in ("line", "output") and tensor.requires_grad and not tensor.is_leaf:
                tensor.register_hook(lambda value: self._backward(record, value))
        if len(self._pending) >= _PENDING or self._waiting > _PENDING_BYTES:
            self._flush()

    def _backward(self, record: dict[str, Any], value: torch.Tensor) -> None:
        self._sequence += 1
        self._record({**record, "kind": "gradient", "sequence": self._sequence}, _tensors(value))

    def _kept(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        flat = tensor.detach().reshape(-1)
        kept = flat[:: max(1, -(-flat.numel() // MOST_ELEMENTS))].clone()
        self._bytes += kept.numel() * kept.element_size()
        self._waiting += kept.numel() * kept.element_size()
        return str(tensor.dtype), tuple(tensor.shape), tensor.device.type, tensor.requires_grad, kept

    def _flush(self) -> None:
        busy, pending = self._busy, self._pending
        self._busy = True
        self._pending = []
        self._waiting = 0
        for record in pending:
            self._write({**record, "values": [(*rest, kept.cpu()) for *rest, kept in record["values"]]})
        self._busy = busy

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(pickle.dumps(record))


class _Draws(TorchDispatchMode):
    """Random numbers come from the CPU's generator, whatever the device, and memory begins as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self._generators: WeakKeyDictionary[torch.Generator, torch.Generator] = WeakKeyDictionary()
        for device in filter(None, (getattr(torch, name, None) for name in ("hpu", "cuda", "xpu"))):
            device.manual_seed = device.manual_seed_all = _seed

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        devices = [one.device for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        device = torch.device(kwargs.get("device") or next(iter(devices), "cpu"))
        draws = torch.Tag.nondeterministic_seeded in function.tags
        if not draws or device.type == "cpu" or _captures():
            result = function(*args, **kwargs)
            return result.zero_() if function.overloadpacket.__name__ in _EMPTY and not _captures() else result
        on_cpu, options = tree_map(self._moved, (args, kwargs))
        result = function(*on_cpu, **options)
        if function._schema.is_mutable:  # in place, or `out`
            return kwargs.get("out", args[0]).copy_(result)
        return tree_map(lambda one: one.to(device) if isinstance(one, torch.Tensor) else one, result)

    def _moved(self, value: Any) -> Any:
        if isinstance(value, torch.Generator) and value.device.type != "cpu":
            return self._generators.setdefault(value, torch.Generator().manual_seed(value.initial_seed()))
        if isinstance(value, torch.Tensor):
            return value.cpu()
        return torch.device("cpu") if isinstance(value, torch.device) else value


def _seed(seed: int) -> None:
    torch.default_generator.manual_seed(int(seed))


def _tensors(values: Any) -> list[torch.Tensor]:
    """Those with values that can be read."""
    return [
        one
        for one in tree_leaves(values)
        if type(one) in (torch.Tensor, torch.nn.Parameter)
        and one.layout is torch.strided
        and one.device.type != "meta"
        and one.numel()
    ]


def _captures() -> bool:
    """Whether a graph of the device is being captured, in which no value can be read."""
    hpu = getattr(torch, "hpu", None)
    return bool(hpu is not None and hpu.is_initialized() and hpu.is_current_stream_capturing())


def _autocast(tensor: torch.Tensor) -> str:
    kind = tensor.device.type
    return str(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else ""
