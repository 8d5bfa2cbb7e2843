"""The work of tests on hpu, as JSON and as a page that needs no network."""

from __future__ import annotations

import fcntl
import html
import json
import os
import time
from pathlib import Path
from typing import IO, Any

from openhpu.observe.insight.observed import plural

_SHARE = 0.02  # of a run's time that writing may take
_MOST_ANNOTATIONS = 50

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tests on hpu</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem; color: #1d2733; }
table { border-collapse: collapse; width: 100%%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #dde3ea; vertical-align: top; }
th { cursor: pointer; position: sticky; top: 0; background: #fff; white-space: nowrap; }
th[aria-sort]::after { content: " \\2191"; } th[aria-sort=descending]::after { content: " \\2193"; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td { overflow-wrap: anywhere; } .failed, .error { color: #b3261e; } details { font-size: .87em; }
input { font: inherit; padding: .35rem .6rem; width: min(32rem, 100%%); box-sizing: border-box; }
tr[hidden] { display: none !important; }
@media (max-width: 50rem) {
  body { margin: 1rem; }
  thead tr { display: flex; flex-wrap: wrap; gap: .3rem; }
  th { position: static; border: 1px solid #dde3ea; border-radius: .3rem; padding: .1rem .5rem; font-weight: 400; }
  tbody tr { display: block; padding: .5rem 0; border-bottom: 1px solid #dde3ea; }
  td { display: inline-block; border: 0; padding: 0 .8rem 0 0; } td:first-child { display: block; }
  td.n[data-value="0"] { display: none; }
  td.n::before { color: #5b6673; }
%(labels)s
}
</style>
<h1>Tests on hpu</h1>
<p>%(summary)s</p>
<p><input id="find" type="search" placeholder="Find a test, an operator or a line" aria-label="Find">
<span id="found" role="status"></span></p>
<table><thead><tr>%(head)s</tr></thead><tbody>
%(rows)s
</tbody></table>
<script>
const body = document.querySelector("tbody"), rows = [...body.rows], heads = [...document.querySelectorAll("th")];
document.getElementById("find").addEventListener("input", event => {
  const wanted = event.target.value.toLowerCase();
  for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  const shown = rows.filter(row => !row.hidden).length;
  document.getElementById("found").textContent = wanted && `${shown} of ${rows.length}`;
});
heads.forEach((head, column) => head.addEventListener("click", () => {
  const numeric = head.className === "n";
  const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const up = head.ariaSort ? head.ariaSort === "descending" : !numeric;  // the largest number first
  for (const other of heads) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  rows.sort((a, b) => (numeric ? value(a) - value(b) : value(a).localeCompare(value(b))) * (up ? 1 : -1));
  body.append(...rows);
}));
</script></html>
"""
_COLUMNS = ("test", "outcome", "s", "new graphs", "recipes", "recompilations", "on the CPU", "waits", "MiB")
_FIRST_NUMBER = 2  # of the columns


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
        by_op: dict[str, int] = {}
        for row in rows:
            for one in row["fallbacks"]:
                by_op[one["op"]] = by_op.get(one["op"], 0) + one["count"]
        most = sorted(by_op.items(), key=lambda item: -item[1])[:5]
        return lines + [f"  on the CPU: {op}, {plural(n, 'time')}" for op, n in most]

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
        kinds = [' class="n"' if column >= _FIRST_NUMBER else "" for column in range(len(_COLUMNS))]
        head = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, _COLUMNS, strict=True))
        labels = "\n".join(
            f'  td:nth-child({column}).n::before {{ content: "{name} "; }}' for column, name in enumerate(_COLUMNS, 1)
        )
        rows = "\n".join(map(_cells, self._rows))
        summary = "<br>".join(map(html.escape, self.summary()))
        return _PAGE % {"summary": summary, "head": head, "labels": labels, "rows": rows}


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


def _cells(row: dict[str, Any]) -> str:
    lines = [*row["violations"], *row["recompilations"]]
    lines += [f"{one['op']} on the CPU at {one['line']}, {one['count']}" for one in row["fallbacks"]]
    lines += [f"{one['op']} waited at {one['line']}, {one['count']}" for one in row["waits"]]
    text = "<br>".join(map(html.escape, lines))
    what = f"<details><summary>{plural(len(lines), 'line')}</summary>{text}</details>" if lines else ""
    numbers = [
        round(row["seconds"], 2), row["graphs"], row["recipes"], len(row["recompilations"]),
        sum(one["count"] for one in row["fallbacks"]), sum(one["count"] for one in row["waits"]),
        round(row["peak_bytes"] / 2**20, 1),
    ]  # fmt: skip
    cells = "".join(f'<td class="n" data-value="{n:g}">{n:g}</td>' for n in numbers)
    outcome = f'<td class="{row["outcome"]}">{row["outcome"]}</td>'
    return f"<tr><td>{html.escape(row['test'])}{what}</td>{outcome}{cells}</tr>"
