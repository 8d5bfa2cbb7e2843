"""The namespace `torch.ops.hpu`.

Its operators are defined when the first of them is asked for, so that `import torch` does not pay for them.
"""

import threading
from typing import Any

import torch

_lock = threading.RLock()
_library: torch.library.Library | None = None


def define() -> None:
    """Define every operator of the table, once.

    Raises RuntimeError where another library has defined one of them before.
    """
    global _library
    with _lock:
        if _library is not None:
            return
        from openhpu.interface.gaudi_ops.registry import NAMESPACE, formals, implementation, rows

        formals()  # a schema that PyTorch cannot parse is said before anything is defined
        library = torch.library.Library(NAMESPACE, "FRAGMENT")  # kept for the process's life
        _library = library
        for row in rows():
            library.define(row.schema)
            library.impl(row.name, implementation(row), "CompositeImplicitAutograd")


class _Namespace(torch._ops._OpNamespace):  # type: ignore[misc]
    """`torch.ops.hpu`, which defines its operators when the first one is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            return super().__getattr__(name)
        define()
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            from openhpu.interface.gaudi_ops.not_built import REFUSED

            if name in REFUSED:
                raise AttributeError(f"torch.ops.hpu has no operator {name!r}: {REFUSED[name]}") from error
            raise

    def __dir__(self) -> list[str]:
        define()
        from openhpu.interface.gaudi_ops.registry import rows

        return sorted({*super().__dir__(), *(row.name.partition(".")[0] for row in rows())})


def install() -> None:
    """Put the namespace where scripts look for it."""
    operators: Any = torch.ops
    operators.hpu = _Namespace("hpu")
