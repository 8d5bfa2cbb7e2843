"""The plan of a graph: the facts that its program needs, such as the tensor that stands for each slot."""

from collections import Counter
from dataclasses import dataclass, field

import torch

from openhpu.compiler.errors import CannotCompile
from openhpu.compiler.program import description as graph
from openhpu.compiler.program.description import Description, NodeDescription
from openhpu.compiler.program.geometry import Geometry, flat
from openhpu.compiler.program.sizes import Size
from openhpu.compiler.program.views import view_steps

_GRAD_SCALE = "grad_scale"


@dataclass
class Slot:
    """A slot as the program sees it: one tensor, of which every operand is a view.

    `base` is that tensor's geometry; a slot that nobody touches has none. `producer` is the (node, output) whose result
    is that tensor; without one, a fresh slot is allocated and results are copied into it.
    """

    index: int
    kind: str
    nbytes: int
    base: Geometry = field(init=False)
    producer: tuple[int, int] | None = None
    mutated: bool = False  # written by an operator, other than by its producer
    operands: list[Geometry] = field(default_factory=list)
    results: list[tuple[int, int, Geometry]] = field(default_factory=list)
    first_use: int = -1  # node that first touches it


@dataclass
class Plan:
    """`slots` by index; `inputs`: input slots that are touched; `outputs`: live slots; `scalars`: variable numbers in
    use, by index."""

    slots: list[Slot]
    inputs: list[Slot]
    outputs: list[Slot]
    scalars: list[int]

    @property
    def mutated(self) -> list[int]:
        """Input slots that the graph writes."""
        return [slot.index for slot in self.inputs if slot.mutated]


def written_arguments(node: NodeDescription) -> set[int]:
    """Positions (in the schema) of the arguments that the operator writes."""
    arguments = graph.operator(node["op"])._schema.arguments
    written = {position for position, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write}
    names = [a.name for a in arguments]
    if node["op"].startswith("aten::_fused_") and _GRAD_SCALE in names:
        # Gradients are written by the unscaling only.
        scale = node["args"][names.index(_GRAD_SCALE)]
        if scale == ("const", None):
            written.discard(names.index("grads"))
    return written


def make_plan(description: Description) -> Plan:
    """Choose the tensor of each slot. Raises CannotCompile where no tensor holds all views of a slot."""
    slots = [Slot(i, s["kind"], s["nbytes"]) for i, s in enumerate(description["slots"])]
    used_scalars = set()
    for number, node in enumerate(description["nodes"]):
        written = written_arguments(node)
        for position, arg in graph.flattened(node["args"]):
            if arg[0] == "tensor":
                slot = slots[arg[1]]
                slot.operands.append(_checked(arg, slot, node))
                slot.mutated |= position in written
                slot.first_use = number if slot.first_use < 0 else slot.first_use
            elif arg[0] in ("scalar", "cpu_scalar") and description["variable"][arg[1]]:
                used_scalars.add(arg[1])
        for position, out in enumerate(node["outputs"]):
            if out[0] == "fresh":
                slot = slots[out[1]]
                slot.results.append((number, position, _checked(out, slot, node)))
                slot.first_use = number if slot.first_use < 0 else slot.first_use
    for index in used_scalars:
        if type(description["scalars"][index]) not in (int, float):
            kind = type(description["scalars"][index]).__name__
            raise CannotCompile(f"a {kind} cannot be an input of a recipe", scalars=[index])
    live = set(description["live"])
    for slot in slots:
        if slot.operands or slot.results or slot.index in live:
            _choose_base(slot)
    return Plan(
        slots,
        [slot for slot in slots if slot.kind == "input" and slot.operands and slot.base.numel],
        [slots[index] for index in description["live"]],
        sorted(used_scalars),
    )


def _checked(entry: tuple[object, ...], slot: Slot, node: NodeDescription) -> Geometry:
    place = graph.geometry(entry)
    if not place.is_valid or place.span[1] > slot.nbytes:
        raise CannotCompile(f"{place} lies outside of slot {slot.index} of {slot.nbytes} bytes", node["op"])
    return place


def _choose_base(slot: Slot) -> None:
    if slot.kind == "fresh" and len(slot.results) == 1:
        number, position, place = slot.results[0]
        if slot.first_use == number and _reaches_all(place, slot):
            slot.base = place
            slot.producer = (number, position)
            return
    places = [place for place in slot.operands if place.numel] + [place for *_, place in slot.results]
    candidates = [place for place in dict.fromkeys(places) if place.is_dense]
    # As the script sees it most often; row-major first, since everything else is then read from it. A dimension that is
    # a symbol tells its value; one that is a multiple of it, as of a flattened tensor, does not.
    frequency = Counter(places)
    candidates.sort(
        key=lambda place: (-place.numel, not place.is_contiguous, not _tells_symbol(place), -frequency[place])
    )
    for place in candidates:
        if _reaches_all(place, slot):
            slot.base = place
            return
    slot.base = _vector(slot, places)
    if not _reaches_all(slot.base, slot, at_any_price=True):
        raise CannotCompile(f"views of different dtypes overlap in slot {slot.index}")


def _tells_symbol(place: Geometry) -> bool:
    return any(isinstance(size, Size) and size.is_symbol for size in place.sizes)


def _reaches_all(base: Geometry, slot: Slot, at_any_price: bool = False) -> bool:
    begin, end = base.span
    for place in dict.fromkeys([*slot.operands, *(place for *_, place in slot.results)]):
        low, high = place.span
        if low == high:
            continue
        if low < begin or high > end:
            return False
        try:
            steps = view_steps(base, place)
        except ValueError:
            return False
        if not at_any_price and not base.is_dense and any(step.name == "as_strided" for step in steps):
            return False
    return True


def _vector(slot: Slot, places: list[Geometry]) -> Geometry:
    """A vector over all that is touched of an input, or over the whole of a fresh slot."""
    dtypes = list(dict.fromkeys(place.dtype for place in places)) or [torch.uint8]
    dtype = min(dtypes, key=lambda dtype: dtype.itemsize)
    unit = max(dtype.itemsize for dtype in dtypes)
    if slot.kind == "fresh":
        return flat(dtype, 0, slot.nbytes // dtype.itemsize * dtype.itemsize)
    spans = [place.span for place in places] or [(0, 0)]
    begin = min(span[0] for span in spans) // unit * unit
    end = max(span[1] for span in spans)
    return flat(dtype, begin, min(-(-end // unit) * unit, slot.nbytes // dtype.itemsize * dtype.itemsize))
