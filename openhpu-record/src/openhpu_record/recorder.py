"""Records the operators of a script in sampled steps. In other steps the mode is off.

What is recorded of an operator, in events:

- `operator`: where it ran, its result's form, statistics and hash; `call` is the number of its kind of call.
- `call`: a kind of call (operator, shapes, dtypes, numbers) that a replay can run: with inputs that the recorder made
  by a rule, run on the device after the script, or with the script's own inputs if these are asked for.
"""

import contextlib
import dataclasses
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from openhpu_record import calls, describing, device as devices, outcomes
from openhpu_record.borders import Borders
from openhpu_record.environment import environment, facts, is_lazy, without_names
from openhpu_record.errors import RecordError
from openhpu_record.made import rule_for
from openhpu_record.second_pass import SecondPass
from openhpu_record.tensors import dtype_name
from openhpu_record.writing import Writer, pack

_OPERATORS, _IN_GRAPH, _BORDERS = "operators", "operators, with statistics in the graph", "borders"
_MOST_PROBLEMS = 20  # of the recorder itself that are told
_MOST_INPUT = 1 << 20  # bytes of an input that is kept
_MOST_CALL = 1 << 30  # bytes of the inputs and results of a call that is run after the script
_OWN = str(Path(__file__).parent)
_PACKAGES = (_OWN, str(Path(torch.__file__).parent))
# They move values to the host or name a device; a replay has nothing to compare.
_NOT_REPLAYED = {"_local_scalar_dense", "is_nonzero", "equal", "record_stream", "detach", "lift_fresh", "empty", "set_"}
_COLLECTIVES = ("c10d", "_c10d_functional", "c10d_functional", "hccl")


@dataclasses.dataclass
class Options:
    """What is recorded. `steps`: numbers from 0 on; `every`: each N-th instead."""

    device: str = "auto"
    steps: list[int] = dataclasses.field(default_factory=lambda: [2])
    every: int | None = None
    with_inputs: bool = False
    after: float = 120.0  # seconds for the calls with made inputs
    second_pass: bool = True  # of a sampled step in lazy mode

    def sampled(self, number: int) -> bool:
        """Whether a step is recorded."""
        return number % self.every == self.every - 1 if self.every else number in self.steps


class Recorder(TorchDispatchMode):
    """Records from `start` to `end`. `folder`: that of the script, whose lines are named."""

    def __init__(self, writer: Writer, options: Options, folder: str) -> None:
        super().__init__()
        self.writer = writer
        self.options = options
        self.lazy = False
        self.device = "cpu"
        self.number = 0  # of the step that runs
        self.recording = False  # whether that one is recorded
        self._folder = folder
        self._process = os.getpid()
        self._calls: dict[str, int] = {}  # their numbers, by operator and arguments
        self._waiting: list[dict[str, Any]] = []  # calls that are run after the script
        self._statistics: list[tuple[dict[str, Any], str, torch.Tensor]] = []  # of lazy mode, on the device
        self._operators: list[dict[str, Any]] = []  # events that wait for them
        self._problems = self._paused = 0
        self._entered = self._manual = self._trains = self._ended = False
        self._began = self._recording_seconds = 0.0
        self._cost: list[str] = []  # of each sampled step, in words
        self._synchronized = False
        self._pass: SecondPass | None = None
        self._depth = 0  # of modules
        self._handles: list[Any] = []
        self.borders = Borders(self)

    # Its begin and end.

    def start(self) -> None:
        """Begin with step 0."""
        # Ours fires for the region and for nothing inside.
        warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
        self._handles = [
            register_optimizer_step_post_hook(self._optimized),
            modules.register_module_forward_pre_hook(self._enters),
            modules.register_module_forward_hook(self._leaves, always_call=True),
        ]
        self.borders.start()
        self.writer.manifest(what="script", depth=_OPERATORS)
        self._begin()

    def end(self, error: str = "") -> None:
        """Write what is left. Without an error the calls run, with inputs that are made."""
        if self._ended or os.getpid() != self._process:
            return
        self._end_step(last=True)
        self._ended = True
        self._off()
        self.borders.end()
        for handle in self._handles:
            handle.remove()
        self.writer.event("facts", mode=self._mode, **facts(self.device))
        if not error:
            self._run_calls()
        self.writer.event("ended", error=error, problems=self._problems)
        self.writer.close()
        for text in self._cost:
            print(f"gaudi-record: {text}", file=sys.stderr)

    @property
    def _mode(self) -> str:
        return "lazy" if self.lazy else "eager"

    def _run_calls(self) -> None:
        """The calls of the script, on made inputs."""
        until = time.monotonic() + self.options.after
        began = time.monotonic()
        for done, call in enumerate(self._waiting):
            if time.monotonic() > until or self.writer.stopped:
                self.writer.event("after", done=done, of=len(self._waiting), seconds=time.monotonic() - began)
                return
            self.writer.event("call", **call, **self._outcome(call))
        self.writer.event("after", done=len(self._waiting), of=len(self._waiting), seconds=time.monotonic() - began)

    def _outcome(self, call: dict[str, Any]) -> dict[str, Any]:
        if call.pop("bytes") > _MOST_CALL:
            return {"outcome": {"skipped": f"its inputs have more than {_MOST_CALL:,} bytes"}}
        if call["family"] == "random":
            return {"outcome": {"skipped": "it draws random numbers"}}
        outcome = outcomes.run(call, self.device)()
        times = outcomes.seconds(call, self.device) if "results" in outcome else None
        return {"outcome": outcomes.stored(outcome, self.writer.keep, str(call["id"])), "seconds": times}

    # Steps.

    def step(self) -> None:
        """The script says that a step ends here; optimizers and modules end none then."""
        self._manual = True
        self._next()

    def _optimized(self, *_: Any) -> None:
        self._trains = True
        if not self._manual:
            self._next()

    def _enters(self, module: torch.nn.Module, values: Any) -> None:
        if torch.compiler.is_compiling():
            return  # Dynamo traces hooks: this one leaves nothing in the region
        self._depth += 1
        self.borders.enters(module, values)

    def _leaves(self, module: torch.nn.Module, values: Any, result: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._depth = max(0, self._depth - 1)
        self.borders.leaves(module, result)
        if not (self._depth or self._manual or self._trains or torch.is_grad_enabled()):
            self._next()  # an inference

    def _next(self) -> None:
        self._end_step()
        self.number += 1
        self._begin()

    def _begin(self) -> None:
        if self._ended or self.writer.stopped or os.getpid() != self._process:
            return
        self.recording = self.options.sampled(self.number)
        self._synchronized = False
        if self.recording or self.options.sampled(self.number + 1):
            self._ask_device()
            self._synchronized = self._synchronize()
        if self.recording:
            self._pass = SecondPass(self.device) if self.lazy and self.options.second_pass else None
            self.__enter__()
            self._entered = True
        self._began = time.perf_counter()

    def _end_step(self, last: bool = False) -> None:
        if self._ended or os.getpid() != self._process:
            return
        was, self.recording = self.recording, False
        self._off()
        about: dict[str, Any] = {"number": self.number, "sampled": was}
        if was and last and not self._operators and not self._calls:
            return  # nothing ran after the last step
        if was or (self._synchronized and self.options.sampled(self.number + 1)):
            about["synchronized"] = self._synchronize()
        about["seconds"] = time.perf_counter() - self._began
        if was:
            self._read_statistics()
            about["depth"] = _BORDERS if self.borders.ran else _IN_GRAPH if self.lazy else _OPERATORS
            self.writer.manifest(
                what="script", depth=about["depth"], environment=environment(self.device, self._folder)
            )
            self.writer.event("facts_of_step", step=self.number, **facts(self.device))
            self._second_pass()
            about["recorder_seconds"] = own = self._recording_seconds
            took = f"step {self.number} took {about['seconds']:.3g} s"
            self._cost.append(f"{took}, of which {own:.3g} s are the recorder's")
            self._recording_seconds = 0.0
        self.writer.event("step", **about)
        self.writer.flush()

    def _off(self) -> None:
        """The mode is off. Under a mode of the script's own this one stays, and passes on."""
        if self._entered and _get_current_dispatch_mode() is self:
            self._entered = False
            self.__exit__(None, None, None)

    def _ask_device(self) -> None:
        self.borders.patch_graphs()
        if self.options.device == "auto":
            self.device = "hpu" if hasattr(torch, "hpu") else "cpu"
        else:
            self.device = self.options.device
        self.lazy = is_lazy(self.device)

    def _synchronize(self) -> bool:
        with contextlib.suppress(RuntimeError, AttributeError):
            devices.synchronize(self.device)
            return True
        return False

    # Operators.

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._is_off() or function.namespace in ("prim", "profiler"):
            return function(*args, **kwargs)
        if any(kind not in (torch.Tensor, torch.nn.Parameter) for kind in types):
            return function(*args, **kwargs)  # a subclass calls the operators of its parts
        began = time.perf_counter()
        if self.borders.captures(function, args, kwargs):
            result = function(*args, **kwargs)
            self.borders.captured(result)
            return result
        call = self.guarded(self._call, function, args, kwargs)
        second = self._pass
        if second is not None:
            self.guarded(second.before, function, args, kwargs)
        self._recording_seconds += time.perf_counter() - began
        result = function(*args, **kwargs)
        began = time.perf_counter()
        if second is not None:
            self.guarded(second.after, result)
        if call is not None:
            self.guarded(self._note, call, function, args, kwargs, result)
        self._recording_seconds += time.perf_counter() - began
        return result

    def _is_off(self) -> bool:
        """Nothing is recorded now, or in this process, which a data loader forked."""
        return not self.recording or bool(self._paused or self.writer.stopped) or os.getpid() != self._process

    def pause(self) -> None:
        """The mode is off until `resume`."""
        self._paused += 1
        self._off()

    def resume(self) -> None:
        """The mode is on again in a recorded step."""
        self._paused -= 1
        if not self._paused and self.recording and not self._entered:
            self.__enter__()
            self._entered = True

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What runs in the context is not recorded."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def guarded(self, what: Any, *given: Any) -> Any:
        """A fault of the recorder is an event, and the script goes on."""
        try:
            return what(*given)
        except Exception as error:
            self._problems += 1
            if self._problems <= _MOST_PROBLEMS:
                text = without_names(f"{type(error).__name__}: {error}", self._folder)[:300]
                self.writer.event("problem", step=self.number, text=text)
            return None

    def _call(self, function: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        """The kind of a call, which is written once. None: it does not touch the device."""
        tensors = calls.tensors((args, kwargs))
        place = kwargs.get("device")
        here = any(one.device.type == self.device for one in tensors)
        if not (here or (place is not None and torch.device(place).type == self.device)):
            return None
        key = json.dumps(
            [str(function), *(calls.encoded(one, describing.form, self.device) for one in (args, list(kwargs.items())))]
        )
        number = self._calls.get(key)
        if number is not None:
            return {"call": number}
        number = self._calls[key] = len(self._calls)
        views = _views(function)
        told = {"call": number, "op": str(function), "schema": str(function._schema), "views": views}
        name = function.overloadpacket.__name__
        if views or name in _NOT_REPLAYED or function.namespace in _COLLECTIVES:
            self.writer.event("form", **told)
            return {"call": number}
        about = self._about(number, function, args, kwargs) | {"dtype": _coarsest(tensors), "line": self._line()}
        self.writer.event("form", **told)
        if self._keeps:
            return {"call": number, "about": about}
        about["bytes"] = sum(one.numel() * one.element_size() for one in tensors)
        self._waiting.append(about)
        return {"call": number}

    @property
    def _keeps(self) -> bool:
        """Whether the inputs of calls are kept as they are, instead of made by a rule."""
        return self.options.with_inputs and not self.lazy

    def _about(self, number: int, function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
        """A call with its inputs, as it can be made again."""
        seeds = iter(range(number * 31 + 1, number * 31 + 2000))

        def tensor(one: torch.Tensor) -> dict[str, Any]:
            return self._kept(one, number, next(seeds)) if self._keeps else self._made(one, next(seeds))

        random = torch.Tag.nondeterministic_seeded in function.tags
        return {
            "id": number,
            "mode": self._mode,
            "family": "random" if random else "script",
            "op": str(function),
            "args": calls.encoded(args, tensor, self.device),
            "kwargs": {name: calls.encoded(value, tensor, self.device) for name, value in kwargs.items()},
        }

    def _made(self, tensor: torch.Tensor, seed: int) -> dict[str, Any]:
        """An input that is made by a rule in place of this one."""
        about = describing.form(tensor)
        rule: dict[str, Any] = {"rule": rule_for(tensor.dtype), "seed": seed}
        if rule["rule"] == "index" and tensor.numel():
            if self.lazy:
                wide = torch.stack([tensor.min(), tensor.max()])
                self._statistics.append((rule, "bound", wide))
            else:
                _bound(rule, int(tensor.min()), int(tensor.max()))
        return {name: about[name] for name in ("dtype", "shape", "stride") if name in about} | {
            "made": rule,
            **({"device": "cpu"} if about["device"] != self.device else {}),
        }

    def _kept(self, tensor: torch.Tensor, number: int, seed: int) -> dict[str, Any]:
        size = tensor.numel() * tensor.element_size()
        host = tensor.detach().cpu() if size <= _MOST_INPUT else None
        place = self.writer.keep(f"{number}.in{seed}", host) if host is not None else None
        if place is None:
            return self._made(tensor, seed)
        about = describing.form(tensor)
        return {name: about[name] for name in ("dtype", "shape", "stride") if name in about} | {"kept": place}

    def _note(self, call: dict[str, Any], function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """The event of an operator that ran."""
        found = calls.results(function, args, kwargs, result)
        views = _views(function)
        about = call.pop("about", None)
        event: dict[str, Any] = {
            **call,
            "step": self.number,
            "line": self._line(),
            "backward": torch._C._current_autograd_node() is not None,
        }
        if self.lazy:
            event["results"] = [describing.form(one) for one in found]
            for form, one in zip(event["results"], found):
                if not views and one.numel() and one.layout is torch.strided:
                    self._statistics.append((form, "numbers", _statistics(one)))
            self._operators.append(event)
            return
        event["results"] = [describing.form(one) if views else describing.described(one) for one in found]
        self.writer.event("operator", **event)
        if about is not None:
            read = [outcomes.read_result(one) for one in found]
            outcome = outcomes.stored({"results": read}, self.writer.keep, str(about["id"]))
            self.writer.event("call", **about, outcome=outcome)

    def _read_statistics(self) -> None:
        """Lazy mode: read what the graph computed beside the step's results, and write the events."""
        waiting, self._statistics = self._statistics, []
        for about, what, numbers in waiting:
            host = self.guarded(numbers.cpu)
            if host is None:
                continue
            if what == "bound":
                _bound(about, int(host[0]), int(host[1]))
            else:
                names = ("min", "max", "mean", "rms", "nan")
                about["numbers"] = {name: calls.number(float(one)) for name, one in zip(names, host)}
        for event in self._operators:
            self.writer.event("operator", **event)
        self._operators = []

    def _second_pass(self) -> None:
        second, self._pass = self._pass, None
        if second is not None:
            began = time.perf_counter()
            if self.borders.ran:
                second.give_up("graphs ran, whose operators are not seen")
            about = second.compared()
            self.writer.event("second_pass", step=self.number, **about, seconds=time.perf_counter() - began)

    def _line(self) -> str:
        """The innermost line of the script's folder, or else of another file that is not PyTorch's."""
        frame: FrameType | None = sys._getframe(2)
        other = ""
        while frame:
            name = frame.f_code.co_filename
            if name.startswith(self._folder) and "site-packages" not in name and not name.startswith(_OWN):
                return f"{name[len(self._folder) + 1 :]}:{frame.f_lineno}"
            if not other and not name.startswith((*_PACKAGES, "<")):
                other = f"{Path(name).name}:{frame.f_lineno}"
            frame = frame.f_back
        return other


def _views(function: Any) -> bool:
    """Whether the result is memory of an argument that is not written."""
    return any(one.alias_info is not None and not one.alias_info.is_write for one in function._schema.returns)


def _bound(rule: dict[str, Any], low: int, high: int) -> None:
    """The rule of whole numbers: indices, or numbers with a sign."""
    if low < 0:
        rule["rule"] = "whole"
    else:
        rule["bound"] = high + 1


def _coarsest(tensors: list[torch.Tensor]) -> str:
    floats = [one.dtype for one in tensors if one.dtype.is_floating_point]
    if floats:
        return dtype_name(max(floats, key=lambda dtype: torch.finfo(dtype).eps))
    return dtype_name(tensors[0].dtype) if tensors else ""


def _statistics(result: torch.Tensor) -> torch.Tensor:
    """Statistics of a result as operators of the same graph: min, max, mean, rms, number of NaN; of float32."""
    wide = result.detach().float()
    parts = [wide.amin(), wide.amax(), wide.mean(), wide.square().mean().sqrt(), wide.isnan().sum().float()]
    return torch.stack(parts)


_current: Recorder | None = None


@contextlib.contextmanager
def record(
    output: str | Path,
    *,
    device: str = "auto",
    steps: list[int] | None = None,
    every: int | None = None,
    with_inputs: bool = False,
    most_bytes: int = 200 << 20,
    after: float = 120.0,
) -> Iterator[Recorder]:
    """Record what runs in the context into the file `output`.

    An optimizer's step ends a step; without one, the outermost module's forward pass does where gradients are off.
    `step()` ends one by hand. `steps`: the numbers of those to record (default: 2, the third). `with_inputs`: keep
    inputs, weights among them. `most_bytes` of the recording. `after`: seconds for the calls with made inputs at the
    end. Raises RecordError.
    """
    global _current
    target = Path(output)
    folder = target.with_name(f"{target.name}.part")
    if _current is not None:
        raise RecordError("a recording is in progress already; record one at a time")
    if folder.exists():
        raise RecordError(f"{folder} is left of an earlier recording; `gaudi-record pack {folder}`, or remove it")
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    recorder = Recorder(
        Writer(folder, most_bytes),
        Options(device, [2] if steps is None else steps, every, with_inputs, after),
        str(Path(main).resolve().parent) if main else str(Path.cwd()),
    )
    _current = recorder
    error = ""
    try:
        recorder.start()
        yield recorder
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        _current = None
        recorder.end(error)
        pack(folder, target, {"code": None, "why": error})


def step() -> None:
    """A step of the script ends here. Does nothing without a recording."""
    if _current is not None:
        _current.step()
