"""Links and pictures of the documents lead somewhere, their Python is Python, and the index names them all."""

import ast
import re
import textwrap

import pytest

from commands import ROOT

DOCUMENTS = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "lightning-habana/*.md")
    for path in ROOT.glob(pattern)
)  # fmt: skip
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.M | re.S)


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))


def anchors(text):
    """The names that GitHub gives to headings."""
    titles = re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken(path, text):
    """Links of a document that lead nowhere."""
    for target in LINK.findall(without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve()
        if file and not found.exists():
            yield target
            continue
        there = text if not file else found.read_text() if found.suffix == ".md" else None
        if anchor and there is not None and anchor not in anchors(there):
            yield target


def not_python(text):
    """Blocks marked as Python that are none, by their first line."""
    for _, language, code in FENCE.findall(text):
        if language in ("python", "py"):
            try:
                ast.parse(textwrap.dedent(code))
            except SyntaxError:
                yield code.strip().partition("\n")[0]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_code(path):
    text = path.read_text()
    assert not [*broken(path, text)]
    assert not [*not_python(text)]


def test_what_is_wrong_is_found():
    path = ROOT / "docs" / "index.md"
    text = "# One\n[a](nowhere.md) ![b](pictures/none.png) [c](compile.md#no-such-part) [d](#one) [e](https://x.org)\n"
    assert [*broken(path, text)] == ["nowhere.md", "pictures/none.png", "compile.md#no-such-part"]
    assert [*not_python("```python\nx = = 1\n```\n```sh\nx = = 1\n```\n")] == ["x = = 1"]


def test_the_index_names_every_document():
    index = (ROOT / "docs" / "index.md").read_text()
    missing = [path.name for path in (ROOT / "docs").glob("*.md") if f"({path.name})" not in index]
    assert missing == ["index.md"]
