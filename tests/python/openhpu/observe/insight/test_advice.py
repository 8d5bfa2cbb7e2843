"""Advice, from documents that are made up."""

import pytest

from openhpu.observe.insight import advice, documents, page, summary


@pytest.fixture
def seen():
    """A run of ten steps in which nothing was wrong."""
    made = documents.empty("script.py")
    process = {
        "pid": 1,
        "mode": "lazy",
        "generation": "gaudi2",
        "started": 0.0,
        "seconds": 1.0,
        "openhpu": "0",
        "torch": "2",
    }
    made["process"] |= process
    made["steps"] = {"counted_by": "optimizer", "count": 10}
    return made


def graph(line, operators):
    return {"operators": operators, "file": "/somewhere/script.py", "line": line}


def test_nothing_wrong_is_no_advice(seen):
    assert advice.advise(seen) == []
    assert "None: nothing was seen" in page.text(seen)


def test_graphs_that_come_once_are_told_by_line(seen):
    seen["graphs"] |= {"distinct": 20, "seen_once": [graph(3, 5), graph(3, 9), graph(7, 80)] + 8 * [graph(9, 2)]}
    (found,) = advice.advise(seen)
    assert found.title == "Few graphs recur"
    assert found.text.startswith("11 graphs of 20 occurred only once")
    assert found.evidence == (
        "script.py:7: 1 graph from here on, of 80 operators",
        "script.py:3: 2 graphs from here on, of 5 to 9 operators",
        "script.py:9: 8 graphs from here on, of 2 operators",
    )
    seen["graphs"]["seen_once"] = seen["graphs"]["seen_once"][:9]
    assert advice.advise(seen) == []


def test_a_fallback_on_complex_numbers_is_another_advice_than_a_missing_operator(seen):
    def fallback(op, dtype):
        return {"op": op, "dtype": dtype, "file": "/somewhere/script.py", "line": 4, "count": 2}

    seen["fallbacks"] = [
        fallback("aten::add.Tensor", "ComplexFloat"),
        fallback("aten::svd", "Float"),
        fallback("x", ""),
    ]
    numbers, missing = advice.advise(seen)
    assert numbers.evidence == ("script.py:4: aten::add.Tensor on ComplexFloat, 2 times",)
    assert missing.evidence == ("script.py:4: aten::svd on Float, 2 times", "script.py:4: x, 2 times")
    assert "script.py:4: x, 2 times" in summary.text([seen], 0)


def test_only_reads_in_at_least_every_other_step_are_too_many(seen):
    def read(line, count):
        return {
            "op": "aten::item",
            "file": "/somewhere/script.py",
            "line": line,
            "count": count,
            "bytes": 4 * count,
            "wait_ns": count * 1_000_000,
        }

    seen["blocking_reads"] = [read(1, 10), read(2, 5), read(3, 4)]
    (found,) = advice.advise(seen)
    assert found.evidence == (
        "script.py:1: aten::item 10 times in 10 steps, 40 B in all, waited 10.0 ms",
        "script.py:2: aten::item 5 times in 10 steps, 20 B in all, waited 5.0 ms",
    )


@pytest.mark.parametrize(
    ("peak", "growth", "told"), [(32 << 20, 16 << 20, True), (32 << 20, (16 << 20) - 1, False), (100, 100, False)]
)
def test_a_line_is_blamed_for_a_large_peak_if_half_of_it_is_its(seen, peak, growth, told):
    seen["memory"] |= {
        "peak_bytes": peak,
        "peak_growth_bytes": growth,
        "peak_file": "/somewhere/script.py",
        "peak_line": 8,
    }
    assert [found.title for found in advice.advise(seen)] == ["One line makes most of the memory peak"] * told


def test_each_cause_of_recompilations_is_an_advice(seen):
    def again(cause, dimension):
        return {
            "cause": cause,
            "op": "aten::addmm",
            "argument": "mat1",
            "dimension": dimension,
            "before": "16",
            "after": ["8"],
            "count": 1,
            "file": "/somewhere/script.py",
            "line": 5,
        }

    seen["recompilations"] = [again("size", 0), again("number", None), again("made up", None)]
    titles = [found.title for found in advice.advise(seen)]
    assert titles[0] == "Keep sizes the same from step to step"
    assert titles[2] == "Recompilations: made up"
    evidence = advice.advise(seen)[0].evidence
    assert evidence == ("script.py:5: aten::addmm: size of dimension 0 of `mat1`: 16 before, then 8 (1 time)",)
