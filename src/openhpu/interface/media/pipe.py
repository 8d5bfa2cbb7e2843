"""Media pipes: batches made by a graph of readers, a decoder and operators on images.

A pipe is a class derived from MediaPipe. It makes its nodes in the constructor and connects them in `definegraph`. A
thread of the pipe is `prefetch_depth` batches ahead. The decoder has more threads. Source: the documented interface of
Gaudi's media pipes (Creating and Executing Media Pipeline).
"""

import contextlib
import inspect
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from openhpu._machine import usable_cores

Arguments = Mapping[str, Any]

_DEVICES = ("hpu", "cpu", "mixed", "legacy", "gaudi", "gaudi2", "gaudi3")


class Edge(NamedTuple):
    """One output of a node in `definegraph`."""

    node: "Node"
    output: int


class Node:
    """An operator of a pipe, called in `definegraph` with the outputs of others. Derived classes give `parameters`,
    their keyword arguments with defaults; `device` is accepted and means nothing: there is one processor."""

    parameters: ClassVar[Arguments] = {}
    required: tuple[str, ...] = ()
    inputs: tuple[int, int] | None = None  # at least, at most; None: as `run` takes them
    outputs = 1

    def __init__(self, *, device: str | None = None, name: str | None = None, **arguments: Any) -> None:
        kind = type(self).__name__
        if unknown := sorted(set(arguments) - set(self.parameters)):
            known = ", ".join(self.parameters) or "none"
            raise TypeError(f"fn.{kind} has no argument {unknown[0]!r}; its arguments: {known}")
        if missing := [argument for argument in self.required if arguments.get(argument) is None]:
            raise TypeError(f"fn.{kind} needs the argument {missing[0]!r}")
        self.arguments = {**self.parameters, **arguments}
        self.sources: tuple[Edge, ...] | None = None

    def __call__(self, *sources: Edge) -> Any:
        kind = type(self).__name__
        taken = inspect.signature(self.run).parameters.values()
        least, most = self.inputs or (sum(one.default is one.empty for one in taken), len(taken))
        if not least <= len(sources) <= most:
            number = str(least) if least == most else f"{least} to {most}"
            names = "" if self.inputs else f" ({', '.join(one.name for one in taken)})"
            raise TypeError(f"fn.{kind} takes {number} inputs{names}; got {len(sources)}")
        for n, source in enumerate(sources):
            if not isinstance(source, Edge):
                found = type(source).__name__
                raise TypeError(f"fn.{kind}: input {n} is a {found}, not an output of another operator of the pipe")
        if self.sources not in (None, sources):
            raise ValueError(f"fn.{kind} is called twice in definegraph; make an operator for each call")
        self.sources = sources
        edges = tuple(Edge(self, n) for n in range(self.outputs))
        return edges[0] if len(edges) == 1 else edges

    def error(self, text: str) -> ValueError:
        """The text with the operator's name."""
        return ValueError(f"fn.{type(self).__name__}: {text}")

    def prepare(self, pipe: "MediaPipe") -> None:
        """Before the first batch."""

    def begin(self) -> None:
        """An epoch begins."""

    def run(self, *inputs: Any) -> Any:
        """A batch. Raises StopIteration at the end of the epoch, if the node is a reader."""
        raise NotImplementedError


class Reader(Node):
    """A node that decides how many batches an epoch has."""

    def batches(self) -> int:
        """Of an epoch."""
        raise NotImplementedError


class DeviceTensor:
    """A batch that `MediaPipe.run` returns. It lies on hpu if the pipe's device is not "cpu"."""

    def __init__(self, values: torch.Tensor) -> None:
        self._values = values

    @property
    def shape(self) -> list[int]:
        """The fastest changing dimension first, as the hardware counts."""
        return list(self._values.shape)[::-1]

    @property
    def dtype(self) -> str:
        return str(self._values.dtype).removeprefix("torch.")

    def as_cpu(self) -> "DeviceTensor":
        """The batch on the host."""
        return DeviceTensor(self._values.cpu())

    def as_nparray(self) -> np.ndarray[Any, Any]:
        """Of a batch on the host; bfloat16, which NumPy lacks, as float32."""
        values = self._values.float() if self._values.dtype == torch.bfloat16 else self._values
        return values.numpy()

    def as_torch(self) -> torch.Tensor:
        return self._values


class MediaPipe:
    """Args: `device` ("hpu", "cpu", "mixed", a generation's name; all compute on the host, and results lie on hpu
    except for "cpu"), `prefetch_depth` batches that are made ahead, `batch_size`, `num_threads` of the decoder (0: the
    process's cores), `pipe_name`. The older order, without `num_threads`, works as well. Raises ValueError."""

    def __init__(
        self,
        device: str | None = None,
        prefetch_depth: int = 2,
        batch_size: int = 1,
        num_threads: int | str | None = 0,
        pipe_name: str | None = None,
    ) -> None:
        if isinstance(num_threads, str):
            pipe_name, num_threads = num_threads, 0
        if device not in (None, *_DEVICES):
            raise ValueError(f"MediaPipe: device is {device!r}; one of {', '.join(map(repr, _DEVICES))}")
        for name, value, least in (
            ("prefetch_depth", prefetch_depth, 1),
            ("batch_size", batch_size, 1),
            ("num_threads", num_threads or 0, 0),
        ):
            if not isinstance(value, int) or value < least:
                raise ValueError(f"MediaPipe: {name} is {value!r}; expected an integer of at least {least}")
        self.device = device or "hpu"
        self.pipe_name = pipe_name or type(self).__name__
        self._depth = prefetch_depth
        self._batch_size = batch_size
        self._threads = num_threads or usable_cores()
        self._results: tuple[Edge, ...] | None = None
        self._order: list[Node] = []
        self._epoch: _Epoch | None = None
        self.pool: ThreadPoolExecutor | None = None

    def definegraph(self) -> Any:
        """To be derived: connect the nodes, return the outputs of a batch."""
        raise NotImplementedError(f"{type(self).__name__} has no definegraph()")

    def get_batch_size(self) -> int:
        return self._batch_size

    getBatchSize = get_batch_size  # Gaudi has both names

    @property
    def prefetch_depth(self) -> int:
        """Batches that are made ahead."""
        return self._depth

    def get_batch_count(self) -> int:
        """Batches of an epoch: the smallest reader's. Raises RuntimeError without one."""
        self._built()
        counts = [node.batches() for node in self._order if isinstance(node, Reader)]
        if not counts:
            raise RuntimeError(f"media pipe {self.pipe_name} has no reader, so that its epochs have no end")
        return min(counts)

    def __len__(self) -> int:
        return self.get_batch_count()

    def build(self) -> None:
        """Connect the nodes. Raises TypeError, ValueError, and exceptions of readers."""
        found = self.definegraph()
        results: Sequence[Any] = (found,) if isinstance(found, Edge) else found
        if not isinstance(results, Iterable) or not all(isinstance(edge, Edge) for edge in results) or not results:
            raise TypeError(f"{type(self).__name__}.definegraph() returns {found!r}; expected outputs of its operators")
        self._results = tuple(results)
        self._order = []
        for edge in self._results:
            self._visit(edge.node)
        self.pool = ThreadPoolExecutor(self._threads, thread_name_prefix="openhpu-media")
        for node in self._order:
            node.prepare(self)

    def _visit(self, node: Node) -> None:
        if node not in self._order:
            for source in node.sources or ():
                self._visit(source.node)
            self._order.append(node)

    def iter_init(self) -> None:
        """Begin an epoch; one that has not ended is left."""
        self._built()
        self.close_epoch()
        for node in self._order:
            node.begin()
        self._epoch = _Epoch(self._batch, self._depth)

    def run(self) -> Any:
        """The next batch: a DeviceTensor for each output of `definegraph`. Raises StopIteration at the end of an epoch,
        and exceptions of operators."""
        if self._epoch is None:
            raise RuntimeError(f"media pipe {self.pipe_name}: call iter_init() before run()")
        outputs = tuple(DeviceTensor(self._moved(output)) for output in self._epoch.next())
        return outputs[0] if len(outputs) == 1 else outputs

    def close_epoch(self) -> None:
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            epoch.stop()

    def _moved(self, output: Any) -> torch.Tensor:
        values = output if isinstance(output, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(output))
        return values if self.device == "cpu" else values.to("hpu")

    def _built(self) -> None:
        if self._results is None:
            raise RuntimeError(f"media pipe {self.pipe_name}: call build() first")

    def _batch(self) -> tuple[Any, ...]:
        assert self._results is not None
        made: dict[Edge, Any] = {}
        for node in self._order:
            outputs = node.run(*(made[source] for source in node.sources or ()))
            for n, output in enumerate((outputs,) if node.outputs == 1 else outputs):
                made[Edge(node, n)] = output
        return tuple(made[edge] for edge in self._results)


class _Epoch:
    """Batches that a thread makes ahead. The thread ends with the epoch, or when it is stopped."""

    def __init__(self, make: Callable[[], tuple[Any, ...]], depth: int) -> None:
        self._make = make
        self._made: queue.Queue[tuple[Any, ...] | BaseException] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._ended: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="openhpu-media-pipe", daemon=True)
        self._thread.start()

    def next(self) -> tuple[Any, ...]:
        found = self._ended or self._made.get()
        if isinstance(found, BaseException):
            self._ended = found
            raise found
        return found

    def stop(self) -> None:
        self._stopped.set()
        while self._thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self._made.get(timeout=0.01)

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                found: tuple[Any, ...] | BaseException = self._make()
            except BaseException as error:
                found = error
            self._made.put(found)
            if isinstance(found, BaseException):
                return
