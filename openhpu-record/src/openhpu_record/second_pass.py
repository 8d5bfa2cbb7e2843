"""Lazy mode: the operators of a sampled step once more, without the statistics, and whether the results are the same.

Statistics are operators of the step's graph, and may change how it is compiled. So each input of the step is cloned
when it is first seen. At the end of the step the same operators run on the clones alone, and the two results are
compared: the inputs that the step changed, and the results that are still alive.
"""

import weakref
from typing import Any

import torch
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakIdRef

from openhpu_record import calls, describing, device as devices

_COLLECTIVES = ("c10d", "_c10d_functional", "c10d_functional", "hccl")
_READS = {"_local_scalar_dense", "is_nonzero", "equal"}


class _Value:
    """The number of a tensor in the trace, in the place of an argument."""

    def __init__(self, number: int) -> None:
        self.number = number


class SecondPass:
    """The trace of a step. Where it cannot be made, `compared` says why, and the script is not concerned."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._numbers: dict[WeakIdRef, int] = {}  # of tensors that are alive
        self._storages: dict[tuple[Any, ...], int] = {}  # numbers by memory, for what autograd saved
        self._inputs: dict[int, torch.Tensor] = {}  # clones
        self._alive: dict[int, Any] = {}  # weak references
        self._trace: list[tuple[Any, Any, Any, list[int]]] = []
        self._next = 0
        self._reason = ""
        self._random = self._state()

    def give_up(self, reason: str) -> None:
        """There is no second pass."""
        self._reason = self._reason or reason
        self._trace = []
        self._inputs = {}

    def _state(self) -> Any:
        module = getattr(torch, self._device, None)
        return module.get_rng_state() if module is not None and self._device != "cpu" else torch.get_rng_state()

    def _set_state(self, state: Any) -> None:
        if self._device == "cpu":
            torch.set_rng_state(state)
        else:
            getattr(torch, self._device).set_rng_state(state)

    def before(self, function: Any, args: Any, kwargs: Any) -> None:
        """An operator is about to run."""
        if self._reason:
            return
        if function.namespace in _COLLECTIVES:
            self.give_up("the step has collectives, in which other ranks take part")
            return
        try:
            given = tree_map(self._argument, (args, kwargs))
        except Exception as error:
            self.give_up(f"{type(error).__name__}: {error}"[:200])
            return
        self._trace.append((function, *given, []))

    def after(self, result: Any) -> None:
        """It has run."""
        if not self._reason:
            self._trace[-1][3].extend(self._known(one, new=True) for one in calls.tensors(result))

    def _argument(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        known = self._known(value)
        return _Value(known)

    def _known(self, tensor: torch.Tensor, new: bool = False) -> int:
        """The number of a tensor. An unknown one is an input of the step, unless it is `new`."""
        found = self._numbers.get(WeakIdRef(tensor))
        if found is not None:
            return found
        place = self._place(tensor)
        if not new and place in self._storages:
            return self._storages[place]
        number = self._next
        self._next += 1
        self._numbers[WeakIdRef(tensor)] = number
        self._alive[number] = weakref.ref(tensor)
        if place is not None:
            self._storages.setdefault(place, number)
            weakref.finalize(tensor.untyped_storage(), self._forget, place, number).atexit = False
        if not new:
            self._inputs[number] = tensor.detach().clone()
        return number

    def _place(self, tensor: torch.Tensor) -> tuple[Any, ...] | None:
        try:
            storage = tensor.untyped_storage()._cdata
        except (RuntimeError, NotImplementedError):  # a tensor without storage
            return None
        return storage, tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())

    def _forget(self, place: tuple[Any, ...], number: int) -> None:
        if self._storages.get(place) == number:
            del self._storages[place]

    def compared(self) -> dict[str, Any]:
        """Run the trace on the clones. `outcome` is equal, different or unchecked, and `text` says more."""
        if self._reason:
            return {"outcome": "unchecked", "text": f"no second pass: {self._reason}"}
        try:
            return self._compared()
        except Exception as error:
            return {"outcome": "unchecked", "text": f"no second pass: {type(error).__name__}: {error}"[:300]}
        finally:
            self._trace = []
            self._inputs = {}

    def _compared(self) -> dict[str, Any]:
        values = dict(self._inputs)
        after = self._state()
        self._set_state(self._random)
        last = self._last_uses()
        kept = {number for number, tensor in self._alive.items() if tensor() is not None}
        with torch.no_grad():
            for at, (function, args, kwargs, outs) in enumerate(self._trace):
                if function.overloadpacket.__name__ in _READS:
                    continue
                given, named = tree_map(lambda one: values[one.number] if type(one) is _Value else one, (args, kwargs))
                found = calls.tensors(function(*given, **named))
                values.update((number, one) for number, one in zip(outs, found) if number not in values)
                for number in {*_numbers((args, kwargs)), *outs}:
                    if last[number] == at and number not in kept:
                        values.pop(number, None)
        devices.mark_step(self._device)
        devices.synchronize(self._device)
        self._set_state(after)
        differ = count = 0
        for number in sorted(kept & values.keys()):
            tensor = self._alive[number]()
            if tensor is None or tensor.layout is not torch.strided:
                continue
            count += 1
            a, b = (describing.digest(describing.spaced(one)[0].cpu()) for one in (tensor, values[number]))
            differ += a != b
        if not count:
            return {"outcome": "unchecked", "text": "no second pass: no result of the step is alive"}
        outcome = "different" if differ else "equal"
        text = f"without the statistics {count - differ} of {count} results have the same bits"
        return {"outcome": outcome, "text": text, "results": count, "differ": differ, "operators": len(self._trace)}

    def _last_uses(self) -> dict[int, int]:
        """The place in the trace at which each number is used last. Then its memory is free."""
        last = {}
        for at, (_, args, kwargs, outs) in enumerate(self._trace):
            for number in [*_numbers((args, kwargs)), *outs]:
                last[number] = at
        return last


def _numbers(value: Any) -> list[int]:
    found: list[int] = []
    tree_map(lambda one: found.append(one.number) if type(one) is _Value else None, value)
    return found
