"""The page of Gaudi's operators."""

from pathlib import Path


def test_the_page_is_that_of_the_table(hpu):
    from openhpu.interface.gaudi_ops.document import markdown

    committed = Path(__file__).parents[5] / "docs" / "gaudi-operators.md"
    assert committed.read_text(encoding="utf-8") == markdown(), (
        "run: python -m openhpu.interface.gaudi_ops > docs/gaudi-operators.md"
    )
