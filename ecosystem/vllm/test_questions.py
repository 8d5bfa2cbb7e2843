"""docs/serving-questions.md says what its commands print."""

import pytest

from commands import ROOT
from ecosystem.vllm import marks, questions


@pytest.mark.parametrize("question", questions.questions(), ids=lambda one: one["name"])
def test_answer_is_what_the_page_says(question):
    page = ROOT / "docs" / "serving-questions.md"
    assert questions.answer(question) == marks.read(page, questions.around(question))
