"""Parts of documents that commands write, between two marks."""

from pathlib import Path


def marks(name: str, command: str) -> tuple[str, str]:
    """The lines around a part."""
    return f"<!-- {name}: written by `{command}` -->", f"<!-- end of {name} -->"


def read(page: Path, around: tuple[str, str]) -> str:
    """What stands between the marks. Raises ValueError where the page has none."""
    begin, end = around
    _, found, rest = page.read_text().partition(begin)
    text, after, _ = rest.partition(end)
    if not (found and after):
        raise ValueError(f"{page} has no part between {begin!r} and {end!r}")
    return text.strip()


def write(page: Path, around: tuple[str, str], text: str) -> None:
    """Put `text` between the marks. Raises ValueError where the page has none."""
    read(page, around)
    begin, end = around
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}")
