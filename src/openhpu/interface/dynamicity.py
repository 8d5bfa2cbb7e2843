"""Finds what is compiled anew: in which module of a model, and for which batches of a data loader."""

import csv
import functools
import inspect
import itertools
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from openhpu.device import mode, steps
from openhpu.observe import events

if TYPE_CHECKING:
    from openhpu.capture.torch_compile.graph import CompiledGraph

# The columns of the two tables, and the keys of their rows.
_CALLS = {
    "Step": "step",
    "Recompiling modules": "module",
    "New in": "new_in",
    "New out": "new_out",
    "Class": "class",
    "Location": "location",
    "Comment": "comment",
    "Cause": "cause",
}
_COUNTS = {"Recompile count": "count", "Class": "class", "Location": "location", "Module name": "module"}
_RAW = ("step", "module", "class", "inputs", "outputs", "new_in", "new_out", "compiled", "cause")

NEW_INPUT = "new input shape"
DYNAMIC = "already processed input shape still recompiled, maybe dynamic ops"
_OF_AN_OPERATOR = "___stack"
_NOTHING = "Nothing was compiled anew after the first step."
_ON_CPU = (
    "The model ran on the CPU, where nothing is compiled: the table lists calls with new shapes, of which hpu would "
    "compile each."
)


class _Call:
    """A module's call that has not ended."""

    def __init__(self, path: str, inputs: str, number: int) -> None:
        self.path = path
        self.inputs = inputs
        self.number = number
        self.learned = 0  # operators that the device met for the first time
        self.compiled = 0  # in the module itself, not in its parts
        self.causes: list[str] = []


class _Frame:
    """What Dynamo traced of the model since the last graph: the calls that begin and end there."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.left: set[str] = set()
        self.around = ""  # a call that began in an earlier frame

    def enter(self, path: str) -> None:
        self.entered.append(path)

    def leave(self, path: str) -> None:
        self.left.add(path)
        if path not in self.entered:
            self.around = path

    @property
    def module(self) -> str:
        """The outermost module that has a part in the frame."""
        return self.around or next(iter(self.entered), "")


class Dynamicity:
    """Follows a model's modules through hooks, and what the device compiles for each.

    In lazy mode a graph ends where a module begins and ends, so that each graph is part of one module. What counts is
    a graph that the device has not seen before; in eager mode an operator with sizes that it has not seen before; with
    torch.compile a graph that is traced anew. Where the whole model is compiled, a graph has many modules and no hook
    runs: Dynamo tells of the hooks while it traces, and a graph belongs to the outermost module in it.
    """

    def __init__(self, model: torch.nn.Module, name: str, csv_out: str) -> None:
        self._csv_out = csv_out
        self._name = name
        self._root = model
        self._step = 0
        self._entered = 0
        self._open: list[_Call] = []
        self._before = 0
        self._causes: list[str] = []
        self._traced = self._first_sights = 0
        self._listening: dict[str, events.Subscription] = {}
        self._seen: dict[str, set[tuple[str, str]]] = {}
        # Calls with these inputs and outputs learned sizes by running operators outside of their graph. The next call
        # records the whole graph, which is the same one.
        self._unsettled: set[tuple[str, str, str]] = set()
        self._on_hpu = False
        self._frame = _Frame()
        self._last_graphs: list[CompiledGraph] = []  # those in which a call of the whole model ends
        self._key = next(_keys)
        _followed[self._key] = self
        self.calls: list[dict[str, Any]] = []  # with the keys of _RAW, and more
        self._places: dict[type, str] = {}
        self._modules: dict[str, torch.nn.Module] = {}
        for path, module in model.named_modules():
            whole = "/".join((name, *path.split("."))) if path else name
            self._modules[whole] = module
            module.register_forward_pre_hook(functools.partial(self._enter, whole), with_kwargs=True)
            module.register_forward_hook(functools.partial(self._leave, whole), with_kwargs=True, always_call=True)

    def _enter(self, path: str, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            _traced(self._key, path, False)
        else:
            self._begin(path, module, args, kwargs)

    def _begin(self, path: str, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if module is self._root:
            self._open.clear()
            self._listen("recompilation", "graph_traced", "wait")
        self._attribute()
        self._open.append(_Call(path, shapes((args, kwargs)), self._entered))
        self._entered += 1
        self._on_hpu = self._on_hpu or any(_is_on_hpu(value) for value in ((args, kwargs), list(module.parameters())))

    def _leave(self, path: str, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        if torch.compiler.is_compiling():
            _traced(self._key, path, True)
        else:
            self._finish(path, module, result)

    def _finish(self, path: str, module: torch.nn.Module, result: Any) -> None:
        self._attribute()
        while self._open and self._open[-1].path != path:
            self._open.pop()  # of a call that an exception ended
        if self._open:
            self._end(self._open.pop(), module, result)
        if module is self._root:
            self._step += 1
            self._stop_listening()

    def _end(self, call: _Call, module: torch.nn.Module, result: Any) -> None:
        outputs = shapes(result)
        seen = self._seen.setdefault(call.path, set())
        new_in = all(call.inputs != known for known, _ in seen)
        new_out = all(outputs != known for _, known in seen)
        seen.add((call.inputs, outputs))
        kind = (call.path, call.inputs, outputs)
        compiled = 0 if kind in self._unsettled else call.compiled + call.learned
        self._unsettled.discard(kind)
        if call.learned:
            self._unsettled.add(kind)
        if not self._on_hpu:
            compiled = int(new_in or new_out)
        self.calls.append(
            {
                "step": self._step,
                "module": call.path,
                "class": type(module).__name__,
                "inputs": call.inputs,
                "outputs": outputs,
                "new_in": new_in,
                "new_out": new_out,
                "compiled": compiled,
                "cause": "; ".join(call.causes) if compiled else "",
                "location": self._place_of(type(module)),
                "number": call.number,
            }
        )

    # What the device compiled

    def _listen(self, *kinds: str) -> None:
        for kind in kinds:
            if kind not in self._listening:
                self._listening[kind] = events.subscribe(kind, functools.partial(_hear, self._key))

    def _stop_listening(self) -> None:
        for subscription in self._listening.values():
            events.unsubscribe(subscription)
        self._listening.clear()

    def heard(self, event: events.Event) -> None:
        found = event.params
        if event.kind == "graph_traced":
            if self._open:
                self._traced += 1
            else:
                self._end_frame()
        elif event.kind == "wait":
            self._first_sights += found["kind"] == "first_sight"
        elif found["cause"] == "guard":
            self._causes.append(f"a guard of torch.compile failed: {found['argument']}")
        elif self._open:
            what = f"{found['cause']} of {found['argument']} in {found['op']}: {found['before']} -> {found['after']}"
            self._causes.append(f"{what}, from {found['origin_op']}" if found.get("origin_op") else what)

    def traced(self, path: str, left: bool) -> None:
        """Dynamo traces a call of this module, or its end. From now on it may compile without a hook."""
        self._listen("recompilation", "graph_traced")
        if left:
            self._frame.leave(path)
        else:
            self._frame.enter(path)

    def _end_frame(self) -> None:
        """Dynamo made a graph of what it traced, outside of a call that hooks follow."""
        frame, self._frame = self._frame, _Frame()
        path = frame.module
        causes = "; ".join(self._causes)
        self._causes.clear()
        if not path:
            return  # of another function
        kind = type(self._modules[path])
        self.calls.append(
            {
                "step": self._steps(),
                "module": path,
                "class": kind.__name__,
                "inputs": "",
                "outputs": "",
                # Dynamo names a value that an operator before the graph made by its place on the stack.
                "new_in": not causes or ("size" in causes and _OF_AN_OPERATOR not in causes),
                "new_out": False,
                "compiled": 1,
                "cause": causes,
                "location": self._place_of(kind),
                "number": self._entered,
            }
        )
        self._entered += 1
        self._on_hpu = True
        if self._name in frame.left:
            from openhpu.capture.torch_compile.graph import compiled_graphs

            self._last_graphs.append(compiled_graphs()[-1])

    def _steps(self) -> int:
        """Calls of the model that have ended."""
        return self._step + sum(graph.calls for graph in self._last_graphs)

    def _attribute(self) -> None:
        """End the graph. What was compiled since the last time belongs to the innermost module that is running."""
        lazy = mode.is_lazy()
        if lazy:
            steps.iter_mark_step()
        counted = events.counters()
        made = self._traced + counted["graphs_new" if lazy else "ops_predicted"]
        if self._open:
            self._open[-1].compiled += made - self._before
            self._open[-1].learned += self._first_sights
            self._open[-1].causes += self._causes
        self._before = made
        self._first_sights = 0
        self._causes.clear()

    def _place_of(self, kind: type) -> str:
        if kind not in self._places:
            try:
                self._places[kind] = f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}"
            except (OSError, TypeError):  # a class of the terminal or of a compiled module
                self._places[kind] = ""
        return self._places[kind]

    # Tables

    def analyse(self) -> list[dict[str, Any]]:
        """Print and write both tables: `<csv_out>_1.csv` has what was compiled in each step, `<csv_out>_2.csv` how
        often in each module. Returns the rows of the first."""
        rows = [row for step in range(self._steps() + 1) for row in self._rows(step)]
        counts = self._counts()
        self._write(rows, _CALLS, "_1")
        self._write(counts, _COUNTS, "_2")
        if not self._on_hpu:
            print(_ON_CPU)
        print(_table(_CALLS, rows))
        print()
        print(_table(_COUNTS, counts))
        if not any(row["step"] and row["compiled"] for row in rows):
            print(_NOTHING)
        return rows

    def _rows(self, step: int) -> list[dict[str, Any]]:
        calls = sorted((call for call in self.calls if call["step"] == step), key=lambda call: call["number"])
        compiled = [call["module"] for call in calls if call["compiled"]]
        rows = []
        for call in calls:
            parts = [path for path in dict.fromkeys(compiled) if path.startswith(call["module"] + "/")]
            if call["compiled"]:
                comment = NEW_INPUT if call["new_in"] else DYNAMIC
            elif parts:
                comment = f"parent of {', '.join(parts)}"
            else:
                continue
            rows.append({**call, "comment": comment})
        return rows

    def _counts(self) -> list[dict[str, Any]]:
        """Of each module that was compiled, the most frequent first."""
        compiled = [call for call in self.calls if call["compiled"]]
        of_module = {call["module"]: call for call in compiled}
        found = Counter(call["module"] for call in compiled)
        return [{**of_module[module], "count": count} for module, count in found.most_common()]

    def raw(self) -> list[dict[str, Any]]:
        """Every call of every module, also written to `<csv_out>_raw.csv`."""
        self._write(self.calls, {name: name for name in _RAW}, "_raw")
        return [*self.calls]

    def _write(self, rows: list[dict[str, Any]], columns: dict[str, str], end: str) -> None:
        with Path(f"{self._csv_out}{end}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([row[key] for key in columns.values()] for row in rows)


_keys = itertools.count()
_followed: weakref.WeakValueDictionary[int, Dynamicity] = weakref.WeakValueDictionary()


def _hear(key: int, event: events.Event) -> None:
    """A listener that keeps no model alive."""
    if followed := _followed.get(key):
        followed.heard(event)


def _traced(key: int, path: str, left: bool) -> None:
    """Dynamo calls it while it traces a hook, and leaves nothing of it in the graph."""
    _followed[key].traced(path, left)


_traced._dynamo_marked_constant = True  # type: ignore[attr-defined]  # the mark of torch.compiler.assume_constant_result


def _table(columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> str:
    """The rows as text, each column as wide as its widest value."""
    lines = [list(columns), *([str(row[key]) for key in columns.values()] for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _is_on_hpu(value: Any) -> bool:
    return any(tensor.device.type == "hpu" for _, tensor in _leaves(value, ""))


def shapes(value: Any) -> str:
    """Dtypes and shapes of the tensors in nested lists, tuples and dictionaries, in order."""
    return ", ".join(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for _, t in _leaves(value, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")


def detect_recompilation_auto_model(
    model: torch.nn.Module, mdlname: str = "Net", waittime: float = 1, csv_out: str = "out"
) -> torch.nn.Module:
    """Follow what the device compiles in `model`, under the name `mdlname`; returns `model`, with two functions more.

    `model.analyse_dynamicity()` prints two tables, returns the rows of the first, and writes `<csv_out>_1.csv` (for
    each step, from 0, the modules for which a graph was compiled, with a comment) and `<csv_out>_2.csv` (how often for
    each module). `model.raw_logs()` gives every call. A module's graph ends where it calls another module, which makes
    the model slower. Where torch.compile compiles the whole model, its graphs stay as they are: a row is a graph, with
    the outermost module in it and the guard that failed, and has no shapes. `waittime` is accepted: compilations need
    not be told apart by pauses here. Source: Gaudi's document on dynamic shapes.
    """
    found: Any = model
    followed = Dynamicity(model, mdlname, csv_out)
    found.analyse_dynamicity = followed.analyse
    found.raw_logs = followed.raw
    return model


def data_dynamicity(dl: Any) -> dict[str, int]:
    """Go through a data loader once. Prints and returns how many batches had which shape.

    The shape of a batch is that of all its tensors. The last lines are the number of shapes, and what to do about it.
    """
    found: Counter[str] = Counter()
    last = ""
    for batch in dl:
        last = ", ".join(f"{path or 'batch'}: {list(tensor.shape)}" for path, tensor in _leaves(batch, ""))
        found[last] += 1
    rows = [{"shape": shape, "count": count} for shape, count in found.most_common()]
    print(_table({"Count": "count", "Shape of a batch": "shape"}, rows))
    print(f"Number of unique shapes: {len(found)}")
    print(_advice(found, last))
    return dict(found.most_common())


def _advice(found: Counter[str], last: str) -> str:
    if not found:
        return "The data loader has no batch."
    if len(found) == 1:
        return "All batches have one shape: the data cause no recompilation."
    if len(found) == 2 and found[last] == 1:
        return "Only the last batch has another shape, which costs a compilation: use drop_last=True, or fill it up."
    return (
        "Each new shape costs a compilation: pad the batches to one length (const_shape_dataloader), or to one of few "
        "lengths (buckets)."
    )


class const_shape_dataloader:
    """A data loader whose batches have sequences of one length.

    Tensors of two and more dimensions are padded at the end of dimension 1 to `maxlen`: with zeros, those under a key
    `labels` with -100, which losses ignore. ValueError for a longer one.
    """

    def __init__(self, dl: Any, maxlen: int) -> None:
        self.dl = dl
        self.maxlen = maxlen

    def __len__(self) -> int:
        return len(self.dl)

    def __iter__(self) -> Iterator[Any]:
        return (self._padded(batch, 0) for batch in self.dl)

    def _padded(self, value: Any, fill: int) -> Any:
        if isinstance(value, torch.Tensor):
            return self._pad(value, fill)
        if isinstance(value, dict):
            return {key: self._padded(item, -100 if key == "labels" else 0) for key, item in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._padded(item, 0) for item in value))
        if isinstance(value, (list, tuple)):
            return type(value)(self._padded(item, 0) for item in value)
        return value

    def _pad(self, tensor: torch.Tensor, fill: int) -> torch.Tensor:
        if tensor.dim() < 2:
            return tensor
        missing = self.maxlen - tensor.shape[1]
        if missing < 0:
            raise ValueError(
                f"a batch has a tensor of shape {list(tensor.shape)}, longer than maxlen={self.maxlen}; "
                "give a larger maxlen or truncate the data"
            )
        padding = [0, 0] * (tensor.dim() - 2) + [0, missing]
        return torch.nn.functional.pad(tensor, padding, value=fill) if missing else tensor
