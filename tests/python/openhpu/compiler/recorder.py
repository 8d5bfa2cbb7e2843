"""Records what a script does to CPU tensors, below autograd, as a description for the compiler."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

_NOT_RECORDED = {"aten::lift_fresh", "aten::_unsafe_view", "aten::_local_scalar_dense"}  # and views


class Recorder(TorchDispatchMode):
    """`with Recorder() as r: step()`, then `r.description(live=[tensors])`.

    Tensors that the block did not make are inputs. `inputs` and `slot_of` lead from slots to tensors.
    """

    def __init__(self):
        super().__init__()
        self.slots = []
        self.nodes = []
        self.scalars = []
        self.storages = []  # by slot; keeps addresses unique
        self._slot_by_address = {}

    def slot_of(self, tensor, kind="input"):
        storage = tensor.untyped_storage()
        slot = self._slot_by_address.get(storage._cdata)
        if slot is None:
            slot = self._slot_by_address[storage._cdata] = len(self.slots)
            self.slots.append({"kind": kind, "nbytes": storage.nbytes()})
            self.storages.append(storage)
        return slot

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs
        if func.is_view or schema.name in _NOT_RECORDED or func.namespace == "profiler":
            return func(*args, **kwargs)
        operands = []
        recorded = [self._argument(given.get(a.name, a.default_value), a, operands) for a in schema.arguments]
        result = func(*args, **kwargs)
        outputs = []
        for out in tree_flatten(result)[0]:
            if not isinstance(out, torch.Tensor):
                outputs.append(("undefined",))
                continue
            same = [k for k, operand in enumerate(operands) if operand is out]
            outputs.append(("argument", same[0]) if same else ("fresh", *self._place(out, "fresh")))
        name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        self.nodes.append({"op": name, "args": recorded, "outputs": outputs, "site": 0})
        return result

    def _place(self, tensor, kind):
        return (
            self.slot_of(tensor, kind),
            tensor.dtype,
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.storage_offset(),
        )

    def _number(self, value):
        self.scalars.append(value)
        return len(self.scalars) - 1

    def _argument(self, value, formal, operands):
        kind = str(formal.real_type)
        if isinstance(value, torch.Tensor):
            operands.append(value)
            return ("tensor", *self._place(value, "input"), value.is_conj() + 2 * value.is_neg())
        if isinstance(value, (list, tuple)) and "Tensor" in kind:
            return ("list", [self._argument(item, formal, operands) for item in value])
        if isinstance(value, (bool, int, float, complex)) and "Tensor" in kind:
            dtype = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}[type(value)]
            return ("cpu_scalar", self._number(value), dtype, True)
        if isinstance(value, (bool, int, float, complex)) and any(k in kind for k in ("number", "Scalar]", "float")):
            return ("scalar", self._number(value))
        return ("const", value)

    def description(self, live=(), threads=None, variable=lambda value: False):
        live = sorted({self._slot_by_address[t.untyped_storage()._cdata] for t in live})
        return {
            "slots": self.slots,
            "nodes": self.nodes,
            "live": [slot for slot in live if self.slots[slot]["kind"] == "fresh"],
            "scalars": self.scalars,
            "variable": [bool(variable(value)) for value in self.scalars],
            "threads": threads or torch.get_num_threads(),
        }
