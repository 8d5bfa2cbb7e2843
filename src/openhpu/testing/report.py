"""The work of tests on hpu, as JSON and as a page that needs no network."""

import fcntl
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import IO, Any

from openhpu.observe.insight.page import environment
from openhpu.observe.insight.sentences import plural

_SHARE = 0.02  # of a run's time that writing may take
_MOST_ANNOTATIONS = 50

_COLUMNS = ("test", "outcome", "s", "new graphs", "recipes", "recompilations", "on the CPU", "waits", "MiB")


class ReportError(ValueError):
    """A page that can't be written."""


class Report:
    """The rows of one run of pytest. `page` is the HTML file; the JSON lies beside it.

    ReportError where it can't be written, or another run writes it.
    """

    def __init__(self, page: Path) -> None:
        self._page = page
        self._json = page.with_suffix(".json")
        if self._json == page:
            raise ReportError(f"{page} is where the JSON goes; name a file that ends in .html")
        self._rows: list[dict[str, Any]] = []
        self._due = 0.0  # when to write next
        try:
            self._lock = _locked(page.with_suffix(".lock"))
        except BlockingIOError as error:
            raise ReportError(f"{page} is being written by another run; name another file") from error
        except OSError as error:
            raise ReportError(f"{page} can't be written: {error.strerror}") from error

    def add(self, row: dict[str, Any]) -> None:
        """One test. All is written now and then, so that a run that is killed leaves it."""
        self._rows.append(row)
        if time.monotonic() >= self._due:
            self.write()

    def ended(self, test: str, outcome: str) -> None:
        """How a test ended after its row was added."""
        for row in reversed(self._rows):
            if row["test"] == test:
                row["outcome"] = outcome
                return

    def write(self) -> None:
        """Both files, each whole or not at all."""
        begun = time.monotonic()
        for path, text in ((self._json, json.dumps({"format": 1, "tests": self._rows})), (self._page, self._html())):
            part = path.with_name(path.name + ".part")
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        now = time.monotonic()
        self._due = now + (now - begun) / _SHARE

    def close(self) -> None:
        """Let other runs write it."""
        if not self._lock.closed:
            Path(self._lock.name).unlink(missing_ok=True)
            self._lock.close()

    def summary(self) -> list[str]:
        """A few lines for the end of pytest's output."""
        rows = self._rows
        total = {name: sum(row[name] for row in rows) for name in ("graphs", "recipes")}
        counted = {name: sum(one["count"] for row in rows for one in row[name]) for name in ("fallbacks", "waits")}
        lines = [
            f"{plural(len(rows), 'test')}: {plural(total['graphs'], 'new graph')}, "
            f"{plural(total['recipes'], 'recipe')}, "
            f"{plural(sum(len(row['recompilations']) for row in rows), 'recompilation')}, "
            f"{plural(counted['fallbacks'], 'operator')} on the CPU, {plural(counted['waits'], 'wait')}; {self._page}"
        ]
        by_op: Counter[str] = Counter()
        for row in rows:
            for one in row["fallbacks"]:
                by_op[one["op"]] += one["count"]
        return lines + [f"  on the CPU: {op}, {plural(n, 'time')}" for op, n in by_op.most_common(5)]

    def annotations(self) -> list[str]:
        """Lines by which GitHub marks lines of the sources."""
        found: dict[tuple[str, str], str] = {}
        for row in self._rows:
            for kind, text in (("fallbacks", "runs on the CPU"), ("waits", "waits for the device")):
                for one in row[kind]:
                    found.setdefault((one["line"], one["op"]), text)
        lines = []
        for (line, op), text in found.items():
            file, _, number = line.rpartition(":")
            if file and number.isdigit():
                lines.append(f"::warning file={os.path.relpath(file)},line={number}::{op} {text} on hpu")
        return lines[:_MOST_ANNOTATIONS]

    def _html(self) -> str:
        template = environment(Path(__file__).parent).get_template("page.html.j2")
        return template.render(columns=_COLUMNS, rows=map(_shown, self._rows), summary=self.summary())


def _locked(path: Path) -> IO[str]:
    """A file, opened and locked. BlockingIOError where another process has the lock."""
    while True:
        lock = open(path, "w")  # noqa: SIM115 (held until `close`)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock.fileno()), os.stat(path)):
                return lock
        except FileNotFoundError:
            pass
        except OSError:
            lock.close()
            raise
        lock.close()  # who had it has removed it meanwhile: another may have made a new one


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the page has it."""
    lines = [*row["violations"], *row["recompilations"]]
    lines += [f"{one['op']} on the CPU at {one['line']}, {one['count']}" for one in row["fallbacks"]]
    lines += [f"{one['op']} waited at {one['line']}, {one['count']}" for one in row["waits"]]
    numbers = [
        round(row["seconds"], 2),
        row["graphs"],
        row["recipes"],
        len(row["recompilations"]),
        sum(one["count"] for one in row["fallbacks"]),
        sum(one["count"] for one in row["waits"]),
        round(row["peak_bytes"] / 2**20, 1),
    ]
    return {**row, "lines": lines, "numbers": [f"{n:g}" for n in numbers]}
