"""Tables in documents are those of the code."""

import pytest

from commands import docs
from openhpu.observe.smi.facts import SOFTWARE_VERSION


@pytest.mark.parametrize("page", docs.PAGES)
def test_tables_are_those_of_the_code(page, hpu):
    assert docs.path_of(page).read_text(encoding="utf-8") == docs.updated(page), "run: make docs"


def test_the_version_in_the_text_is_the_devices():
    assert f"({SOFTWARE_VERSION})" in docs.path_of("differences.md").read_text(encoding="utf-8")
