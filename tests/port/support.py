"""Text in, text out."""

import textwrap

from openhpu_port import port, to_device

TABLES = {target: to_device(target) for target in ("cuda", "xpu", "cpu")}


def ported(text, target="cuda", table=None):
    """The translated text, and what is listed as (line, what)."""
    found = port(textwrap.dedent(text).encode(), table or TABLES[target])
    return found.text.decode(), [(problem.line, problem.what) for problem in found.problems]
