"""The language: each piece of the page gives a scalar program's values."""

import struct

import pytest
import torch

from openhpu_tpc.types import LANES
from tests.tpc.libraries import library
from tests.tpc.snippets import SNIPPETS, Snippet

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i16": torch.int16, "i8": torch.int8, "i32": torch.int32}
N, F = 3, 1.5
ROWS = 3


def of_kind(kind: str) -> list[tuple[int, Snippet]]:
    return [(index, each) for index, each in enumerate(SNIPPETS) if each.kind == kind]


def kernel(kind: str) -> str:
    """One source for all pieces of a kind; the first number of `main` chooses."""
    lane = LANES[kind]
    vector = f"{lane.stem}{lane.lanes}"
    outside = "\n".join(each.outside for _, each in of_kind(kind))
    pieces = "".join(
        f"static {vector} piece_{index}(tensor in, int5 at, {vector} x, {vector} y, int n, float f)\n"
        f"{{\n{each.body}\nreturn r;\n}}\n"
        for index, each in of_kind(kind)
    )
    cases = "".join(f"case {index}: r = piece_{index}(in, at, x, y, n, f); break;\n" for index, _ in of_kind(kind))
    return f"""{outside}
{pieces}
void main(tensor in, tensor other, tensor out, int which, int n, float f)
{{
    const int5 begin = get_index_space_offset();
    const int5 end = get_index_space_size() + begin;
    int5 at = {{0}};
    for (int row = begin[1]; row < end[1]; row++) {{
        at[1] = row;
        for (int column = begin[0] * {lane.lanes}; column < end[0] * {lane.lanes}; column += {lane.lanes}) {{
            at[0] = column;
            {vector} x = v_{kind}_ld_tnsr_b(at, in);
            {vector} y = v_{kind}_ld_tnsr_b(at, other, 0, ({vector})0, 1, 0);
            {vector} r;
            switch (which) {{
{cases}            }}
            v_{kind}_st_tnsr(at, out, r);
        }}
    }}
}}
"""


def description(kind: str) -> str:
    return f"""[[kernel]]
guid = "page_{kind}"
source = "page_{kind}.c"
inputs = ["{kind}", "{kind}"]
outputs = ["{kind}"]
space = ["out0[0] / {LANES[kind].lanes}", "out0[1]"]
scalars = 3
"""


@pytest.fixture(scope="module")
def page():
    files = {f"page_{kind}.c": kernel(kind) for kind in DTYPES}
    return library(files | {"page.toml": "".join(map(description, DTYPES))})


def test_the_page_has_sixty_pieces():
    assert len(SNIPPETS) >= 60
    assert len({each.name for each in SNIPPETS}) == len(SNIPPETS)


@pytest.mark.parametrize("index", range(len(SNIPPETS)), ids=[each.name.replace(" ", "-") for each in SNIPPETS])
def test_values(page, index):
    snippet = SNIPPETS[index]
    dtype, lanes = DTYPES[snippet.kind], LANES[snippet.kind].lanes
    columns = lanes + 7
    generator = torch.Generator().manual_seed(index)
    values = torch.randint(-20, 20, (2, ROWS, columns), generator=generator)
    x, y = (each.to(dtype) / 4 if dtype.is_floating_point else each.to(dtype) for each in values)
    x, y = x.to(dtype), y.to(dtype)
    out = torch.full_like(x, 99)
    page.run(f"page_{snippet.kind}", [x, y], [out], struct.pack("iif", index, N, F), pieces=2)
    program = compile(snippet.value, snippet.name, "eval")
    expected = torch.tensor(
        [
            [
                eval(program, {"x": x[row, i].item(), "y": y[row, i].item(), "n": N, "f": F, "i": i % lanes})
                for i in range(columns)
            ]
            for row in range(ROWS)
        ],
        dtype=torch.float64,
    )
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=0)
