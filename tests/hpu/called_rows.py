"""Which of Gaudi's operators tests called. `python -m tests.run` fails for rows of operators.tsv that none called.

A call counts if it returned: one that a test expects to fail says nothing about values.
`python -m tests.hpu.called_rows FILE` prints the rows that are not in the file.
"""

import functools
import os
import sys
from pathlib import Path

from openhpu.interface.gaudi_ops import registry

VARIABLE = "TESTS_CALLED_ROWS"  # the file of names, a line each


def note_from_now_on(file: Path) -> None:
    """Write the name of each row into the file when it is called for the first time."""
    plain = registry.implementation
    seen: set[str] = set()

    def noting(row):
        function = plain(row)

        @functools.wraps(function)
        def call(*args, **kwargs):
            result = function(*args, **kwargs)
            if row.name not in seen:
                seen.add(row.name)
                with file.open("a", encoding="utf-8") as names:
                    names.write(f"{row.name}\n")
            return result

        return call

    registry.implementation = noting


def missing(file: Path) -> list[str]:
    """The rows that the file does not name."""
    called = set(file.read_text(encoding="utf-8").splitlines()) if file.exists() else set()
    return [row.name for row in registry.rows() if row.name not in called]


if __name__ == "__main__":
    print(*missing(Path(sys.argv[1])), sep="\n")
elif file := os.environ.get(VARIABLE):
    note_from_now_on(Path(file))
