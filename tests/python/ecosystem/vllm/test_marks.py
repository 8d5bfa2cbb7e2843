"""Parts of documents between marks, and a table of which some rows are made anew."""

import pytest

from ecosystem.vllm import marks, simulated

AROUND = marks.marks("rows", "python -m rows")


def test_part_is_replaced_and_the_rest_stays(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{AROUND[0]}\n\nold\n\n{AROUND[1]}\n\nafter\n")
    assert marks.read(page, AROUND) == "old"
    marks.write(page, AROUND, "new\nlines")
    assert page.read_text() == f"before\n\n{AROUND[0]}\n\nnew\nlines\n\n{AROUND[1]}\n\nafter\n"


def test_page_without_the_marks_is_left_as_it_is(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{AROUND[0]} and no end")
    with pytest.raises(ValueError, match="has no part between"):
        marks.write(page, AROUND, "new")
    assert page.read_text() == f"{AROUND[0]} and no end"


def test_rows_of_models_that_are_not_made_anew_stay(tmp_path):
    page = tmp_path / "page.md"
    around = simulated._AROUND
    page.write_text(f"{around[0]}\n{simulated.HEAD}\n| A | bf16 | 1 |\n| C | bf16 | 3 |\n{around[1]}\n")
    order = ["| A | bf16 |", "| B | bf16 |", "| C | bf16 |"]
    simulated.put(page, {"| B | bf16 |": "| B | bf16 | 2 |"}, order)
    assert marks.read(page, around).splitlines()[2:] == ["| A | bf16 | 1 |", "| B | bf16 | 2 |", "| C | bf16 | 3 |"]
