"""Graphs of lazy mode, as Python sees them: the settings, and the compilation of graphs that recur.

The core records graphs and asks for compilations. A thread takes the requests, lets the compile process make recipes,
and returns them. The thread does not hold Python's lock while it waits.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from openhpu import _C, settings
from openhpu.compiler.client import waits
from openhpu.compiler.client.forks import no_fork
from openhpu.observe import events
from openhpu.observe.aside import Aside, report

if TYPE_CHECKING:
    from openhpu.compiler.client.disk_cache import DiskCache
    from openhpu.compiler.client.manifest import Manifest
    from openhpu.compiler.client.service import Service
    from openhpu.compiler.program.description import Description

# The bound of a graph, for a script that never ends a step and never reads a value.
_MAX_OPERATORS = 1 << 18
_TOLD_S = 1.0  # how long a recipe waits for the listeners of its event
_SETTLE_S = 30.0  # how long wait_for_recipes waits for them if the script gives no time
_END_S = 10.0  # how long the end of the process waits for a thread
# The meaning of OPENHPU_COMPILE_DEADLINE=0, and how much longer than the deadline a script waits for the answer: the
# service kills its process first, and says why.
_LONGEST_S = 86400.0
_GRACE_S = 5.0
# How long the compiler gets idle time only, before graphs leave a core to it: a script that ends sooner gains nothing
# from recipes.
_IDLE_S = 10.0
_MAX_MAP_COUNT = Path("/proc/sys/vm/max_map_count")
_MAPPINGS = 6  # of one recipe's library


class Recipe(NamedTuple):
    """A compiled graph. `str(recipe)` is a Python program that computes the same.

    `calls`: of how many calls of regions and of single operators between them it consists; 0: it is compiled as a
    whole. `library`: of a recipe of regions that of the first region.
    """

    name: str
    program: str
    library: Path
    operators: int
    external_kernels: int
    calls: int

    def __str__(self) -> str:
        return self.program


class Recompilation(NamedTuple):
    """A compilation of a program that had been compiled before, and the first difference between the two.

    `cause`: "size", "stride", "dtype", "number" (an argument that counted as a constant), "memory" (offsets, storages'
    sizes, what is needed after the step) or "graph". `dimension` is that of a size or stride. `site`: file and line of
    the operator. `time_ns` as time.monotonic_ns().
    """

    cause: str
    op: str
    argument: str
    dimension: int | None
    before: str
    after: str
    site: tuple[str, int] | None
    time_ns: int


class Compilations:
    """Takes the core's requests to the compile service and its answers back, on a thread of its own."""

    def __init__(self, service: Service, aside: Aside):
        self._service = service
        self.aside = aside
        self._owner = os.getpid()
        self.asked: dict[int, tuple[float, Description]] = {}  # without a recipe or a reason why there is none
        self._teller = waits.Teller()
        self._thread = threading.Thread(target=self._serve, name="openhpu-graphs", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while (request := _C.next_compile_request()) is not None:
            identity, description = request
            try:
                if identity is None:
                    self._warn_failure(*description)
                else:
                    self._ask(identity, description)
            except Exception:  # a defect of ours: the next request is served
                report()

    def _ask(self, identity: int, description: Description) -> None:
        """Send a request on. It is answered in any case, because a thread may be waiting."""
        self.asked[identity] = time.monotonic(), description
        try:
            from openhpu.compiler.client import dumps

            dumps.write(description)
        except Exception:  # the graph can be compiled although it can't be written
            report()
        try:
            self._service.request(identity, description, self._ready, self._failed)
        except Exception as error:
            self._failed(identity, f"{type(error).__name__}: {error}")

    def _ready(self, identity: int, manifest: Manifest, folder: Path) -> None:
        asked, description = self.asked.pop(identity)
        try:
            duration = round((time.monotonic() - asked) * 1e6)
            # A recipe that is on disk comes on the thread that asks.
            kind = "recipe_loaded" if threading.current_thread() is self._thread else "graph_compilation"
            program = (folder / "program.py").read_text()
            params = {"recipe": manifest.key[:16], "duration": duration, "ops": operators(description)}
            if kind == "graph_compilation":
                params["phases"] = {name: round(took * 1e6) for name, took in self._service.seconds.items()}
            self.aside.run(functools.partial(events.publish, kind, params))
            # Listeners hear of it before the recipe counts as ready, so that a thread that waits for the recipe finds
            # the event delivered. If a listener itself waits for the compiler, the recipe does not wait longer.
            self.aside.settle(_TOLD_S)
            _C.recipe_ready(identity, manifest, [str(folder / library) for library in manifest.libraries()], program)
        except Exception as error:
            message = f"the recipe could not be loaded: {error}"
            self._warn_failure(message, *_identify(description))
            _C.recipe_failed(identity)

    def _failed(self, identity: int, message: str) -> None:
        asked = self.asked.pop(identity, None)  # none: answered before
        if asked is not None and not asked[1].get("symbols"):  # where one recipe for all sizes fails, each gets its own
            self._warn_failure(message, *_identify(asked[1]))
        _C.recipe_failed(identity)

    def _warn_failure(self, message: str, operators: int, first: str) -> None:
        text = (
            f"a graph of {operators} operators, recorded from {first} on, can't be compiled and runs operator by "
            f"operator: {message}"
        )
        self.aside.run(functools.partial(warnings.warn, text, RuntimeWarning, stacklevel=2))
        self.aside.settle(_TOLD_S)  # before the core's answer, as events of recipes

    def stop(self) -> None:
        """Ask no more, and end the compiler's process. Both are its parent's where this process was forked."""
        if os.getpid() != self._owner:
            return
        from openhpu.compiler.client import dumps

        dumps.finish()
        _C.close_graphs()
        # A thread that comes back from the core into an interpreter that has ended takes the process down.
        self._thread.join(_END_S)
        self._teller.join(_END_S)
        self._service.close()
        self.aside.close()


_compilations: Compilations | None = None
# Makes that of this process. It has threads: a process that opens no device shall have none, and a child of its own.
_make: Callable[[], Compilations] | None = None


@functools.cache
def start() -> None:
    """Apply the settings of lazy mode, once: when the mode is read, or at the first capture."""
    with no_fork:  # threads may capture first at the same time
        _start()


@functools.cache
def _start() -> None:
    global _make
    policy = settings.get("OPENHPU_COMPILE")
    longest = min(settings.get("PT_HPU_MAX_COMPOUND_OP_SIZE"), _MAX_OPERATORS)
    deadline = settings.get("OPENHPU_COMPILE_DEADLINE") or _LONGEST_S
    _C.configure_graphs(
        policy,
        settings.get("HABANA_PGM_LRU_MAX"),
        longest,
        max_libraries=_most_libraries(),
        longest_wait_s=deadline + min(deadline, _GRACE_S),
        idle_compiler_s=_IDLE_S,
    )
    if policy == "off":
        return
    _make = functools.partial(_compilations_of, _disk_cache(), policy != "sync", deadline)


def _compilations_of(cache: DiskCache | None, idle: bool, deadline: float) -> Compilations:
    from openhpu.compiler.client.service import Service

    aside = Aside("openhpu-told")
    service = Service(
        cache,
        idle=idle,
        deadline=deadline,
        urgent=_C.awaited_recipes,
        hurry=_C.compiler_is_in_a_hurry,
        warn=lambda message: aside.run(functools.partial(warnings.warn, message, RuntimeWarning, stacklevel=2)),
    )
    return Compilations(service, aside)


def _most_libraries() -> int:
    """How many recipes' libraries the graph cache keeps loaded: captured graphs may hold as many, and together they
    take half of the mappings that the system allows a process."""
    try:
        allowed = int(_MAX_MAP_COUNT.read_text())
    except (OSError, ValueError):
        allowed = 65530  # Linux's own choice
    return max(1, allowed // (4 * _MAPPINGS))


def start_compiling() -> None:
    """Captures have recipes in eager mode, too."""
    start()
    ahead()


def ahead() -> None:
    """Serve the core's requests, and start the compiler's process where graphs will need it. Called when the first
    device is opened."""
    global _compilations
    if _make is None:
        return
    with no_fork:
        if _compilations is None:
            _compilations = _make()
            atexit.register(_compilations.stop)
    if os.getpid() == _compilations._owner:
        _compilations._service.ahead()


def _disk_cache() -> DiskCache | None:
    """The cache that the environment asks for, by the newer variable or the older ones."""
    from openhpu.compiler.client import disk_cache

    text = os.environ.get("PT_HPU_RECIPE_CACHE_CONFIG")
    if not settings.get("PT_HPU_PGM_ENABLE_CACHE") or (text is not None and not text.split(",")[0].strip()):
        return None
    if text is None:
        delete, size = settings.get("PT_CACHE_FOLDER_DELETE"), settings.get("PT_CACHE_FOLDER_SIZE_MB")
        text = f"{settings.get('PT_RECIPE_CACHE_PATH')},{delete},{size or ''}"
    try:
        return disk_cache.DiskCache(*disk_cache.parse_config(text))
    except ValueError as error:
        raise settings.SettingError(f"PT_HPU_RECIPE_CACHE_CONFIG={error}") from error


def wait_for_recipes(timeout: float | None = None) -> bool:
    """Wait until every graph that was to be compiled is compiled, or could not be.

    `timeout` in seconds. Returns False when it passed first.
    """
    began = time.monotonic()
    found: bool = _C.wait_for_recipes(-1.0 if timeout is None else timeout)
    if found and _compilations is not None:
        _compilations.aside.settle(_SETTLE_S if timeout is None else max(0.0, timeout - (time.monotonic() - began)))
    return found


def settle() -> None:
    """Wait until listeners know of every compilation so far, for some seconds at most."""
    if _compilations is not None:
        _compilations.aside.settle(_END_S)


def unanswered() -> int:
    """How many graphs are being compiled; after the end of the script: were, when it ended."""
    return 0 if _compilations is None else len(_compilations.asked)


def recipes() -> list[Recipe]:
    """The compiled graphs in memory, the most recently used first."""
    return [Recipe(**record | {"library": Path(record["library"])}) for record in _C.recipes()]


def recompilations() -> list[Recompilation]:
    """The last recompilations, 1,024 at most, in order. The counter `recompilations` is of all."""
    return [Recompilation(**record) for record in _C.recompilations()]


def operators(description: Description) -> dict[str, int]:
    """How often each operator stands in a described graph, the most frequent first."""
    counted = Counter(str(node["op"]).removeprefix("aten::") for node in description["nodes"])
    return dict(counted.most_common())


def _identify(description: Description) -> tuple[int, str]:
    return len(description["nodes"]), next(iter(description["sites"].values()), "an unknown line")
