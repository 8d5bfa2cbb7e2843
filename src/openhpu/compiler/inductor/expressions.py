"""Several lines of C++ where Inductor's generated code has an expression."""

from typing import Any


def of_lines(*lines: str) -> Any:
    """A function of these lines, which return a value, that is called where it stands."""
    from torch._inductor.codegen.common import BracesBuffer

    code = BracesBuffer()
    code.writeline("[&]()")
    with code.indent():
        code.writelines(lines)
    code.writeline("()")
    return code
