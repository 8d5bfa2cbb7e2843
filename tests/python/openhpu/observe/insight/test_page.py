"""The page: what a script names is text on it, never HTML; numbers have separators and their own column."""

import pytest

from openhpu.observe.insight import page
from openhpu.observe.insight.documents import empty
from tests.python.openhpu.observe.insight.conftest import Page

HOSTILE = '<script>alert("&")</script>'


@pytest.fixture
def seen():
    """A lazy run of which every section has something to say, in hostile words."""
    document = empty(HOSTILE)
    place = {"file": HOSTILE, "line": 3}
    document["process"] |= {
        "pid": 1,
        "parent": 0,
        "rank": None,
        "mode": "lazy",
        "generation": "gaudi2",
        "started": 0.0,
        "seconds": 2.0,
        "openhpu": "0.1",
        "torch": HOSTILE,
    }
    document["steps"] = {"count": 1234, "counted_by": "mark_step"}
    document["fallbacks"] = [{"op": HOSTILE, "dtype": "Float", "count": 12345, **place}]
    document["blocking_reads"] = [{"op": HOSTILE, "count": 2, "bytes": 8, "wait_ns": 1000, **place}]
    document["shape_waits"] = [{"kind": "shape", "op": HOSTILE, "count": 2, "wait_ns": 1000, **place}]
    document["own_waits"] = [{"kind": "queue", "op": HOSTILE, "count": 2, "wait_ns": 1000, **place}]
    document["collectives"] = [{"op": HOSTILE, "count": 2, "bytes": 8, "wait_ns": 1000, **place}]
    document["errors"] = [{"op": HOSTILE, "message": HOSTILE, **place}]
    document["recipes"] = [
        {"name": HOSTILE, "runs": 5, "from_disk": False, "ms": 1500.0, "operators": 2, "ops": {HOSTILE: 2}}
    ]
    document["graphs"]["seen_once"] = [{"operators": 7, **place}]
    document["phases"] = {
        "phases": [{"name": n, "steps": 3, "graphs": 1, "recipes": 1, "bytes": 99 << 30} for n in ("warm-up", HOSTILE)],
        "later": [{"phase": HOSTILE, "step": 2, "file": f"/x/{HOSTILE}", "line": 3, "cause": None}],
    }
    document["recompilations"] = [
        {
            "cause": "size",
            "op": HOSTILE,
            "argument": HOSTILE,
            "dimension": 0,
            "before": HOSTILE,
            "after": [HOSTILE],
            "count": 1,
            **place,
        }
    ]
    document["memory"] |= {"peak_bytes": 100, "peak_file": HOSTILE, "peak_line": 3, "peak_growth_bytes": 60}
    document["sections"] = [
        {
            "title": HOSTILE,
            "facts": [(HOSTILE, "1")],
            "notes": [HOSTILE],
            "lanes": [("MME", [(0.0, 4000.0)])],
            "tables": [(HOSTILE, ("Line", "Times"), [(HOSTILE, 54321)]), ("Empty", ("Line",), [])],
        }
    ]
    document["counters"] = {"ops_recorded": 1234567, "ops_waited": 0}
    return document


def test_what_a_script_names_is_text(seen):
    shown = Page(page.text(seen))
    assert "script" not in shown.tags
    assert shown.text.count(HOSTILE) >= 12
    assert {"table", "details", "figure", "h2"} <= shown.tags


def test_numbers_and_sections(seen):
    shown = page.text(seen)
    assert '<td class="n" data-label="Times">12,345</td>' in shown
    assert "1,234,567" in shown
    assert "ops_waited" not in shown
    assert '<td class="n" data-label="Times">54,321</td>' in shown
    assert "Empty" not in shown
    assert "4.00 ms" in shown
    assert "<summary>2 operators</summary>" in shown
    assert "1.5 s" in shown
    assert Page(shown).text.count("None.") == 0
    assert "2 waits for room in the queue, 0.0 ms" in shown
    seen["process"]["mode"] = "eager"
    assert "Recipes</h2>" not in page.text(seen)


def test_a_run_without_a_device():
    shown = Page(page.text(empty(HOSTILE)))
    assert "No hpu device was opened" in shown.text
    assert HOSTILE in shown.text
    assert "table" not in shown.tags
