"""How much of the databases must run in recipes: no less than it did.

Two checks. A case that the committed page (docs/conformance-lazy.md, docs/conformance-compile.md) does not list as "in
no recipe" fails where it runs in none; so a part of the databases notices, too. And a full run, which writes the page
anew, fails where a family of operators has a smaller share in recipes than tests/expectations/floors.toml says.
"""

import functools
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from commands import ROOT
from tests.conformance.database import operators
from tests.conformance.pool import Result

FLOORS = ROOT / "tests" / "expectations" / "floors.toml"
PAGES = {
    "recipe": ROOT / "docs" / "conformance-lazy.md",
    "compile_forward": ROOT / "docs" / "conformance-compile.md",
    "compile_backward": ROOT / "docs" / "conformance-compile.md",
}
# Families of operators by their names in op_db: the first that fits.
_KINDS = (
    ("convolutions", r"nn\.functional\.conv"),
    ("attention", r".*attention"),
    (
        "products",
        r"(__rmatmul__|addbmm|addmm|addmv|addr|baddbmm|bmm|chain_matmul|dot|einsum|ger|inner|kron|matmul|mm|mv"
        r"|linalg\.multi_dot|linalg\.vecdot|outer|tensordot|vdot|nn\.functional\.(bi)?linear|sparse\.mm)\b",
    ),
    ("norms", r"(nn\.functional\.(batch|group|instance|layer|rms|local_response)_norm|native_(batch|layer)_norm)"),
    ("pooling", r"nn\.functional\..*pool"),
    ("losses", r"nn\.functional\..*(loss|entropy|nll)"),
    ("neural networks, other", r"nn\.functional\."),
    ("linear algebra", r"linalg\.|cholesky|lu|qr|svd|triangular_solve|ormqr|geqrf|pinverse|logdet|trace"),
    ("fourier transforms", r"fft\.|stft|istft"),
    ("special functions", r"special\."),
    ("masked", r"masked\."),
)


def kind(name: str) -> str:
    """The family of an operator of op_db."""
    for title, pattern in _KINDS:
        if re.match(pattern, name):
            return title
    info = type(operators()[name]).__name__
    return {
        "UnaryUfuncInfo": "elementwise, one operand",
        "BinaryUfuncInfo": "elementwise, two operands",
        "ReductionOpInfo": "reductions",
        "ShapeFuncInfo": "shapes",
        "ForeachFuncInfo": "lists",
    }.get(info, "others")


@functools.cache
def _outside(page: Path) -> frozenset[str]:
    """What a committed page lists as in no recipe: `forward:NAME:DTYPE`, in lazy mode's page `NAME:DTYPE`."""
    text = page.read_text()
    _, _, section = text.partition("## In no recipe")
    section, _, _ = section.partition("\n## ")
    return frozenset(
        name for line in section.splitlines() if line.startswith("- ") for name in re.findall(r"`([^`]+)`", line)
    )


def read_pages() -> None:
    """Read them now: a full run writes them anew."""
    for page in PAGES.values():
        _outside(page)


def new_outside(result: Result) -> str:
    """Why this result is a failure: it ran in a recipe when the page was written; else nothing."""
    family, _, rest = result["case"].partition(":")
    if not result.get("outside") or family not in PAGES:
        return ""
    listed = rest if family == "recipe" else f"{family.removeprefix('compile_')}:{rest}"
    page = PAGES[family]
    if listed in _outside(page):
        return ""
    return f"in no recipe: {result['outside']}; {page.name} does not list it as such"


def shares(results: Iterable[Result]) -> dict[str, dict[str, float]]:
    """By family of cases and family of operators: the share of the cases that ran in recipes, in per cent."""
    cases: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        family, name, _ = result["case"].split(":")
        if family in PAGES:
            cases[family][kind(name)].append(not result.get("outside"))
    return {
        family: {title: 100 * sum(inside) / len(inside) for title, inside in kinds.items()}
        for family, kinds in cases.items()
    }


def below(results: Iterable[Result], path: Path = FLOORS) -> list[str]:
    """What is below its floor in a full run, a line each; a family without a floor is told, too."""
    floors = tomllib.loads(path.read_text())
    found = []
    for family, kinds in shares(results).items():
        for title, share in sorted(kinds.items()):
            floor = floors.get(family, {}).get(title)
            if floor is None:
                found.append(f"{family}: {title} have no floor in {path.name}; {share:.0f} % run in recipes")
            elif share < floor:
                found.append(f"{family}: of {title} {share:.1f} % run in recipes, the floor is {floor} %")
    return found
