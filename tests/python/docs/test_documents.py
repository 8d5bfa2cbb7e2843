"""Links and pictures of the documents lead somewhere, their Python runs, and the index names them all.

The documents for newcomers have short sentences.
"""

import ast
import re
import textwrap

import pytest

from commands import ROOT

DOCUMENTS = sorted(
    path
    for folder in (
        "",
        "docs/**/",
        "benchmarks/",
        "lightning-habana/",
        "openhpu-predict/",
        "openhpu-port/",
        "openhpu-tpc/",
        "openhpu-record/",
        "recordings/",
        "tests/",
    )
    for path in ROOT.glob(f"{folder}*.md")
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MOST_WORDS = 30
FIRST_READ = ["README.md", "docs/getting-started.md", "docs/concepts.md"]
# Their blocks run as they are; blocks of the others continue a script of the reader's, or need more than one process.
WHOLE = [
    "README.md",
    "docs/ci.md",
    "docs/compile.md",
    "docs/getting-started.md",
    "docs/graphs.md",
    "docs/lazy-mode.md",
    "docs/what-works.md",
]
PARTS = [
    "docs/custom-ops.md",
    "docs/deepspeed-inference.md",
    "docs/deepspeed.md",
    "docs/distributed.md",
    "docs/lightning.md",
    "docs/prediction.md",
    "docs/profiling.md",
    "docs/ready-for-gaudi.md",
    "docs/tpc.md",
]
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
        there = text
        if file:
            there = found.read_text() if found.suffix == ".md" else None
        if anchor and there is not None and anchor not in anchors(there):
            yield target


def blocks(text):
    return [textwrap.dedent(code) for _, language, code in FENCE.findall(text) if language in ("python", "py")]


def not_python(text):
    """Blocks marked as Python that are none, by their first line."""
    for code in blocks(text):
        try:
            ast.parse(code)
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


def test_documents_with_code_are_run_or_named():
    assert sorted(WHOLE + PARTS) == sorted(
        path.relative_to(ROOT).as_posix() for path in DOCUMENTS if blocks(path.read_text())
    )


def run_blocks(script, text, **settings):
    """Each block by itself, in one process: it imports what it needs."""
    code = f"for block in {blocks(text)!r}:\n    exec(block, {{'__name__': 'block'}})"
    return script(code, warnings="default", TORCH_DEVICE_BACKEND_AUTOLOAD="1", OPENHPU_COMPILE="off", **settings)


@pytest.mark.parametrize("name", WHOLE)
def test_blocks_run(name, script):
    mode = "1" if name == "docs/lazy-mode.md" else "0"
    run_blocks(script, (ROOT / name).read_text(), PT_HPU_LAZY_MODE=mode)
