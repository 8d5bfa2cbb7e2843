"""Links and pictures of the documents lead somewhere, their Python is Python, and the index names them all.

The documents for newcomers have short sentences.
"""

import ast
import re
import textwrap

import pytest

from commands import ROOT

DOCUMENTS = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "lightning-habana/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
)  # fmt: skip
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MOST_WORDS = 30
FIRST_READ = ["README.md", "docs/getting-started.md", "docs/concepts.md"]
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


def sentences(text):
    """The sentences of a document without code blocks, tables, headings and comments. A colon does not end one."""
    text = re.sub(r"^\|.*$|^#.*$|<!--.*?-->", "", FENCE.sub("", text), flags=re.M)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`\n]*`", "Code", text))
    for block in re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )", text):
        yield from re.split(r"(?<=[.!?])\s+(?=[A-Z*\"])", " ".join(block.split()))


def too_long(text):
    return [sentence for sentence in sentences(text) if len(re.findall(r"\S*\w\S*", sentence)) > MOST_WORDS]


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
    folder = ROOT / "docs"
    named = [path.relative_to(folder).as_posix() for path in [*folder.glob("*.md"), *folder.glob("understand/*.md")]]
    assert [name for name in named if f"({name})" not in index] == ["index.md"]


@pytest.mark.parametrize("name", FIRST_READ)
def test_sentences_are_short(name):
    text = (ROOT / name).read_text()
    assert len([*sentences(text)]) > 10
    assert too_long(text) == []


def test_a_long_sentence_is_found():
    words = "word " * MOST_WORDS
    long = f"It has `code of many words`, {words.strip()}."
    others = (
        f"# {words}of a heading\n\n| {words}| of a table |\n\n```sh\n{words}of code\n```\n\nShort.  One {words[:50]}."
    )
    assert too_long(f"{others}\n\n- {long} Then another.\n- {words.strip()}\n") == [
        f"- {long}".replace("`code of many words`", "Code")
    ]
