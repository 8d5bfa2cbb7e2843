"""Where a Gaudi refuses or computes otherwise than this device: the one table.

`note` is called where a script does such a thing. With OPENHPU_STRICT=gaudi it raises the row's error. Otherwise it
publishes the event `kindness`, which `openhpu run` lists. `make docs` puts the rows into `docs/differences.md`. The
tests run an example of each row at both levels.
"""

from __future__ import annotations

from dataclasses import dataclass

from openhpu import settings
from openhpu.observe import events


@dataclass(frozen=True)
class Difference:
    """One row.

    `kind`: its name in events and reports. `what` a script does; `gaudi`: what happens there; `here`: what happens
    here, and with OPENHPU_STRICT=gaudi (`strict`). `source`: where that is known from. `needs`: what the script needs
    there; a variable and its value let it run at both levels. `error`: a pattern of the strict error, or "" where there
    is none. `event`: the event that reports it.
    """

    kind: str
    what: str
    gaudi: str
    here: str
    strict: str
    source: str
    needs: str
    error: str = ""
    event: str = "kindness"


DIFFERENCES = (
    Difference(
        "autoload", "`import torch` alone, in lazy mode",
        "`torch.hpu` does not exist until `habana_frameworks.torch` is imported",
        "`import torch` loads the device", "as on a Gaudi",
        "habana_frameworks' autoload module; transformers #36990",
        needs="`import habana_frameworks.torch` before this line, or PT_HPU_AUTOLOAD=1",
        error=r"hpu",
    ),
    Difference(
        "int64-range", "an int64 value beyond int32 is copied to the device",
        "an error, unless PT_ENABLE_INT64_SUPPORT=1 (default: 0 in lazy mode and on the first generation, otherwise 1)",
        "the value is kept", "as on a Gaudi",
        "optimum-habana #1876; Gaudi's table of flags",
        needs="PT_ENABLE_INT64_SUPPORT=1",
        error=r"Error when trying to cast Long to Int, Input values range \[1, 1099511627776\] exceeds Int range",
    ),
    Difference(
        "float64-range", "a finite float64 value beyond float32 is copied to the device",
        "an error: the device stores float64 as float32",
        "the value is kept", "as on a Gaudi",
        "Gaudi's documents: float64 is not supported",
        needs="values within the range of float32",
        error=r"Error when trying to cast Double to Float, Input values range \[.*, 1e\+300\] exceeds Float range",
    ),
    Difference(
        "int64-arithmetic", "int64 results exceed int32",
        "they wrap, unless PT_ENABLE_INT64_SUPPORT=1",
        "they are exact, and not counted: the device does not look at results", "they wrap and are counted",
        "Gaudi's table of flags; docs/int64.md",
        needs="PT_ENABLE_INT64_SUPPORT=1", event="int64_overflow",
    ),
    Difference(
        "e4m3-range", "float8_e4m3fn has numbers above 240, with OPENHPU_GENERATION=gaudi2",
        "they are infinity (256) and NaN (above): the uppermost exponent is for these",
        "they are numbers, as in PyTorch; a recipe does not look for them",
        "a cast gives infinity and NaN for them, other operators take NaN, larger results are infinity; such graphs "
        "have no recipe",
        "vllm-gaudi #1612, #1668",
        needs="a scale that keeps values within 240, as `cast_to_fp8_v2` with Gaudi 2's scales",
    ),
    Difference(
        "index-out-of-range", "an index is out of range",
        "no error; an unspecified row is read",
        "no error; zeros are read, and a write is dropped; both are counted", "as without it",
        "Gaudi's kernels do not check indices; docs/indices.md",
        needs="indices within the range", event="indices_out_of_range",
    ),
    Difference(
        "graphs-in-eager", "HPU graphs in eager mode",
        "`habana_frameworks.torch.hpu` has no `HPUGraph` and no `wrap_in_hpu_graph`: graphs are of lazy mode",
        "they work in both modes", "an error",
        "Gaudi's documents: HPU Graphs are supported in lazy mode only",
        needs="PT_HPU_LAZY_MODE=1",
        error="HPU graphs are not supported in eager mode; set PT_HPU_LAZY_MODE=1",
    ),
    Difference(
        "compile-in-lazy", '`torch.compile(backend="hpu_backend")` in lazy mode',
        "the backend does not exist there: it is for eager mode",
        "it works in both modes", "an error",
        "Gaudi's documents: torch.compile needs PT_HPU_LAZY_MODE=0",
        needs="PT_HPU_LAZY_MODE=0",
        error="torch.compile with hpu_backend is not supported in lazy mode; set PT_HPU_LAZY_MODE=0",
    ),
    Difference(
        "lazy-collectives", "a collective in a captured graph, without PT_HPU_ENABLE_LAZY_COLLECTIVES",
        "an error: the default of PT_HPU_ENABLE_LAZY_COLLECTIVES is 0",
        "the graph holds the collective: the default is 1", "as on a Gaudi",
        "Gaudi's table of flags; vllm #10897",
        needs="PT_HPU_ENABLE_LAZY_COLLECTIVES=1",
        error="collective nonSFG is not supported during hpu graph capturing",
    ),
    Difference(
        "tensor-cache", "a result of `wrap_in_hpu_graph(disable_tensor_cache=True)` is kept over the next call",
        "each call returns the same tensors, so that a kept result changes",
        "each call returns new tensors", "as on a Gaudi",
        "vllm-fork #1865",
        needs="a copy of a result that is kept: `.clone()`",
    ),
    Difference(
        "cpu-operand", "an operand is on the CPU, in eager mode",
        "an error", "an error", "as without it",
        "PyTorch's rule; lazy mode moves the operand, and reports say so",
        needs="`.to('hpu')`", error="Expected all tensors to be on the same device", event="error",
    ),
    Difference(
        "shape-in-capture", "an operator whose sizes depend on values, in a captured graph",
        "an error", "an error", "as without it",
        "Gaudi's documents: HPU graphs hold static shapes only",
        needs="a form of static shape, such as torch.where",
        error="is not supported during HPU Graph capturing", event="error",
    ),
)  # fmt: skip

BY_KIND = {row.kind: row for row in DIFFERENCES}


def note(kind: str, detail: str = "") -> None:
    """The script does what a Gaudi refuses: RuntimeError with OPENHPU_STRICT=gaudi, else an event with its line."""
    if settings.is_strict():
        if error := BY_KIND[kind].error:
            raise RuntimeError(error)
    elif events.wanted("kindness"):
        from openhpu import _C

        events.publish("kindness", {"kind": kind, "detail": detail}, _C.current_site())
