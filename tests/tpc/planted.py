"""A hundred faults in ten kernels, and which of them checks and values find: `python -m tests.tpc.planted`.

A fault changes a text of a kernel's source or of its description. Each kernel is built once with all of its faults.
"""

import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from commands import ROOT
from openhpu_tpc import building
from openhpu_tpc.compiling import Options
from openhpu_tpc.loading import KernelError, Library

EXAMPLES = ROOT / "examples" / "tpc"
BLOCKS = 'access = { out0 = [["64 * i0", "64 * i0 + 63"], "i1"] }'
TILES = 'space = ["out0[0] / 64", "out0[1]"]'
MOST_MISSED = 10
Tensors = list[torch.Tensor]


@dataclass
class Planted:
    """A kernel with its description, operands, reference and faults (a text of either, and what replaces it)."""

    path: str
    described: str
    inputs: Callable[[], Tensors]
    reference: Callable[[Tensors], Tensors]
    faults: list[tuple[str, str]]
    parameters: bytes = b""
    types: str = field(default="")


def values(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def silu_gradient(given: Tensors) -> Tensors:
    grad, x = given
    s = torch.sigmoid(x)
    return [grad * s * (1 + x * (1 - s))]


def rms_norm(given: Tensors) -> Tensors:
    x, weight = given
    inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + 0.25)
    return [x * inverse * weight, inverse]


def rms_norm_gradient(given: Tensors) -> Tensors:
    grad, x, weight, inverse = given
    g = grad * weight
    mean = (g * x).mean(-1, keepdim=True) * inverse.square()
    return [inverse * (g - x * mean), (grad * x * inverse).sum(0)]


def attention(given: Tensors) -> Tensors:
    queries, keys, mask = given
    return [(0.5 * queries @ keys + mask).softmax(-1)]


def masked(queries: int, keys: int) -> torch.Tensor:
    """Far below zero everywhere, and farther for a part of the keys."""
    mask = torch.full((queries, keys), -200.0)
    mask[:, ::7] = -900.0
    mask[1:, 5:9] = -900.0
    return mask


def quantized(given: Tensors) -> Tensors:
    x, scales = given
    return [(x * scales[:, None]).to(torch.float8_e4m3fn)]


def scanned(given: Tensors) -> Tensors:
    x, decay, gain, read = given
    h = torch.zeros(x.shape[1])
    rows = []
    for step in range(x.shape[0]):
        h = decay[step] * h + gain[step] * x[step]
        rows.append(read[step] * h)
    return [torch.stack(rows), h[None]]


def gathered(given: Tensors) -> Tensors:
    table, numbers = given
    known = (numbers >= 0) & (numbers < table.shape[0])
    return [table[numbers.clamp(0, table.shape[0] - 1).long()] * known[:, None]]


ROWS = 'space = ["out0[1]"]'
KERNELS = {
    "silu": Planted(
        "kernels/silu_f32.c",
        f"{TILES}\n{BLOCKS}",
        lambda: [values(4, 130)],
        lambda given: [torch.nn.functional.silu(given[0])],
        [
            ("at[0] = column;", "at[0] = column + 1;"),
            ("row < end[1]", "row < end[1] - 1"),
            ("column < end[0] * 64", "column < end[0] * 64 - 64"),
            ("int column = start[0] * 64", "int column = start[0] * 32"),
            ("at[1] = row;", "at[1] = 0;"),
            ("value * v_sigmoid_f32(value)", "v_sigmoid_f32(value)"),
            ('space = ["out0[0] / 64"', 'space = ["out0[0] / 128"'),
            ("64 * i0 + 63", "64 * i0 + 31"),
            ('"out0[1]"]', '"out0[1] - 1"]'),
            ('"i1"]', '"i1 + 1"]'),
        ],
    ),
    "silu_grad": Planted(
        "kernels/silu_grad_f32.c",
        f"{TILES}\n{BLOCKS}",
        lambda: [values(4, 130), values(4, 130, seed=1)],
        silu_gradient,
        [
            ("at[0] = column;", "at[0] = column - 64;"),
            ("1.0f - s,", "s - 1.0f,"),
            ("int row = start[1]", "int row = start[1] + 1"),
            ("at[1] = row;", "at[1] = row + 1;"),
            ("column += 64", "column += 128"),
            ("v_f32_ld_tnsr_b(at, grad)", "v_f32_ld_tnsr_b(at, x)"),
            ("v_f32_st_tnsr(at, result", "v_f32_st_tnsr((int5){column}, result"),
            ('space = ["out0[0] / 64"', 'space = ["out0[0] / 256"'),
            ('"i1"]', '"0"]'),
            ('["64 * i0",', '["64 * i0 + 1",'),
        ],
    ),
    "matmul": Planted(
        "kernels/matmul_f32.c",
        'space = ["out0[0] / 64", "out0[1] / 4"]\n'
        'access = { out0 = [["64 * i0", "64 * i0 + 63"], ["4 * i1", "4 * i1 + 3"]] }',
        lambda: [values(10, 7), values(7, 130, seed=1)],
        lambda given: [given[0] @ given[1]],
        [
            ("k < depth", "k < depth - 1"),
            ("(int5){column, k}, b", "(int5){k, column}, b"),
            ("(int5){k, tile * ROWS + row}, a", "(int5){k, tile + row}, a"),
            ("(int5){column, tile * ROWS + row}, c", "(int5){column, tile + row}, c"),
            (
                "for (int row = 0; row < ROWS; row++)\n                v_f32_st",
                "for (int row = 0; row < ROWS - 1; row++)\n                v_f32_st",
            ),
            ("float64 sum[ROWS] = {0};", "static float64 sum[ROWS];"),
            ("sum[row] = v_f32_mac_b(line, factor, sum[row])", "sum[0] = v_f32_mac_b(line, factor, sum[0])"),
            ("4 * i1 + 3", "4 * i1 + 2"),
            ("out0[1] / 4", "out0[1] / 5"),
            ("column < end[0] * 64", "column <= end[0] * 64"),
        ],
    ),
    "softmax": Planted(
        "kernels/softmax_f32.c",
        f'{ROWS}\naccess = {{ out0 = ["all", "i0"] }}',
        lambda: [values(3, 130) * 5 - 200],
        lambda given: [given[0].softmax(-1)],
        [
            ("v_f32_max_vb(largest, value, 0, largest, inside)", "v_f32_max_b(largest, value)"),
            ("lane < width - at[0] ? value : 0.0f", "value"),
            ("exponentials[block] = value;", "exponentials[0] = value;"),
            ("exponentials[block] * factor", "exponentials[block + 1] * factor"),
            ("(width + 63) / 64", "width / 64"),
            (
                "block < blocks; block++) {\n            at[0] = block * 64;\n            v_f32_st",
                "block < blocks - 1; block++) {\n            at[0] = block * 64;\n            v_f32_st",
            ),
            ("{0, row}", "{0, row + 1}"),
            ("largest = v_f32_reduce_max(largest);", ""),
            ('"i0"]', '"i0 + 1"]'),
            ("#define MOST_BLOCKS 256", "#define MOST_BLOCKS 2"),
        ],
    ),
    "rmsnorm": Planted(
        "kernels/rmsnorm_f32.c",
        f'{ROWS}\nscalars = 1\naccess = {{ out0 = ["all", "i0"], out1 = ["0", "i0"] }}',
        lambda: [values(3, 130), values(130, seed=1)],
        rms_norm,
        [
            ("float64 sum = 0;", "float64 sum = 1;"),
            ("sum = v_f32_mac_b(value, value, sum);", "sum = v_f32_mac_b(value, value, sum); break;"),
            ("(1.0f / (float)width)", "(1.0f / 64.0f)"),
            ("(int5){at[0]}, weight", "(int5){0}, weight"),
            ("(int5){0, row}, inverse", "(int5){0, 0}, inverse"),
            ("v_f32_st_tnsr_partial((int5){0, row}, inverse, r, 0, 0);", ""),
            ("(int5){0, row}, inverse", "(int5){1, row}, inverse"),
            ("width) + epsilon", "width) - epsilon"),
            ("int5 at = {0, row};", "int5 at = {0, row - 1};"),
            ('out1 = ["0", "i0"]', 'out1 = ["0", "i0 - 1"]'),
        ],
        struct.pack("f", 0.25),
    ),
    "rmsnorm_grad": Planted(
        "kernels/rmsnorm_grad_f32.c",
        f'{ROWS}\ncleared = ["out1"]\naccess = {{ out0 = ["all", "i0"], out1 = ["all"] }}',
        lambda: [values(3, 130), values(3, 130, seed=1), values(130, seed=2), values(3, 1, seed=3).abs()],
        rms_norm_gradient,
        [
            ("RMW_OP_ADD", "RMW_OP_MAX"),
            ('cleared = ["out1"]', "cleared = []"),
            (
                "v_f32_st_tnsr_rmw(column, dweight, given * value * r, RMW_OP_ADD | RMW_DT_FP32)",
                "v_f32_st_tnsr(column, dweight, given * value * r)",
            ),
            ("(g - value * mean) * r", "(g - value * mean)"),
            ("(int5){0, row}, inverse", "(int5){row, 0}, inverse"),
            ("int5 column = {at[0]};", "int5 column = {0};"),
            ("v_f32_st_tnsr(at, dx,", "v_f32_st_tnsr(column, dx,"),
            ("row < end[0]", "row + 1 < end[0]"),
            ("(r * r / (float)width)", "(r / (float)width)"),
            ('out0 = ["all", "i0"]', 'out0 = ["all", "2 * i0"]'),
        ],
    ),
    "attention": Planted(
        "described/attention_f32.c",
        f'{ROWS}\nscalars = 1\naccess = {{ out0 = ["all", "i0"] }}',
        lambda: [values(5, 7), values(7, 130, seed=1), masked(5, 130)],
        attention,
        [
            ("score = score * scale", "score = score"),
            ("inside ? weight : 0.0f", "weight"),
            ("v_f32_max_vb(largest, score, 0, largest, inside)", "v_f32_max_b(largest, score)"),
            ("scores[block] = score;", ""),
            ("(int5){first, i}, keys", "(int5){first, query}, keys"),
            ("(int5){first, query}, mask", "(int5){first, 0}, mask"),
            ("(int5){i, query}, queries", "(int5){query, i}, queries"),
            ("(count + 63) / 64", "count / 64"),
            ("(int5){block * 64, query}, weights", "(int5){block * 64 + 32, query}, weights"),
            ("#define MOST_BLOCKS 64", "#define MOST_BLOCKS 1"),
        ],
        struct.pack("f", 0.5),
    ),
    "quantize": Planted(
        "described/quantize_f8.c",
        'space = ["out0[0] / 256", "out0[1]"]\naccess = { out0 = [["256 * i0", "256 * i0 + 255"], "i1"] }',
        lambda: [values(3, 700) * 20, torch.tensor([0.5, 2.0, 1.25])],
        quantized,
        [
            ("(int5){column, row}, values) * scale", "(int5){column, row}, values)"),
            ("column + 128, row", "column + 64, row"),
            ("SW_RHNE", "SW_RZ"),
            (" | SW_LINEAR", ""),
            ("(int5){row}, scales", "(int5){0}, scales"),
            ("(int5){column, row}, numbers", "(int5){column, 0}, numbers"),
            ("int column = start[0] * 256", "int column = start[0] * 64"),
            ("256 * i0 + 255", "256 * i0 + 127"),
            ("out0[0] / 256", "out0[0] / 512"),
            (
                "v_f8_st_tnsr((int5){column, row}, numbers, number)",
                "v_f8_st_tnsr_partial((int5){column, row}, numbers, number, 127, 0)",
            ),
        ],
        types='inputs = ["f32", "f32"]\noutputs = ["f8"]',
    ),
    "scan": Planted(
        "described/scan_f32.c",
        'space = ["out0[0] / 64"]\n'
        'access = { out0 = [["64 * i0", "64 * i0 + 63"], "all"], out1 = [["64 * i0", "64 * i0 + 63"], "all"] }',
        lambda: [values(6, 130), values(6, 130, seed=1).sigmoid(), values(6, 130, seed=2), values(6, 130, seed=3)],
        scanned,
        [
            ("decay), h, entering)", "decay), entering, h)"),
            ("float64 h = 0;", "static float64 h;"),
            ("step < steps", "step < steps - 1"),
            ("int step = 0", "int step = 1"),
            ("(int5){channel, 0}, state", "(int5){0, 0}, state"),
            ("v_f32_st_tnsr((int5){channel, 0}, state, h);", ""),
            ("at = {channel, step}", "at = {channel, 0}"),
            ("v_f32_st_tnsr(at, y", "v_f32_st_tnsr((int5){channel, step + 1}, y"),
            ('out0 = [["64 * i0", "64 * i0 + 63"]', 'out0 = [["64 * i0", "64 * i0 + 47"]'),
            ("channel += 64", "channel += 32"),
        ],
    ),
    "gather": Planted(
        "described/gather_f32.c",
        f"{TILES}\n{BLOCKS}",
        lambda: [values(9, 130), torch.tensor([8, 0, -1, 7, 3, 9], dtype=torch.int32)],
        gathered,
        [
            ("number >= 0 &&", "number > 0 &&"),
            ("number < count", "number < count - 1"),
            ("(int5){place}, numbers", "(int5){place + 1}, numbers"),
            ("table, 0, 0, known)", "table, 0, 1, known)"),
            ("table, 0, 0, known)", "table, 0, 0, known, 1)"),
            ("(int5){column, place}, rows", "(int5){column, number}, rows"),
            ("int place = start[1]", "int place = start[1] + 1"),
            ("get_dim_size(table, 1)", "get_dim_size(numbers, 0)"),
            ('"out0[1]"]', '"out0[1] / 2"]'),
            ("int column = start[0] * 64", "int column = start[0] * 64 + 64"),
        ],
        types='inputs = ["f32", "i32"]\noutputs = ["f32"]',
    ),
}


def changed(kernel: Planted, number: int) -> tuple[str, str]:
    """The source and the description with a fault; -1 is the kernel as it is. Raises ValueError."""
    source, described = (EXAMPLES / kernel.path).read_text(), kernel.described
    if number < 0:
        return source, described
    old, new = kernel.faults[number]
    if (source + described).count(old) != 1:
        raise ValueError(f"{kernel.path}: fault {number}: {old!r} is there {(source + described).count(old)} times")
    return source.replace(old, new), described.replace(old, new)


def built(name: str, numbers: list[int], folder: Path) -> Library:
    """A library with the kernel as `k0`, and with each fault as `k1` and so on."""
    kernel = KERNELS[name]
    given, entries = [], []
    types = kernel.types or 'inputs = ["f32"] * I\noutputs = ["f32"] * O'
    inputs = kernel.inputs()
    counts = {"I": len(inputs), "O": len(kernel.reference(inputs))}
    for letter, count in counts.items():
        types = types.replace(f'["f32"] * {letter}', str(["f32"] * count))
    for number in [-1, *numbers]:
        source, described = changed(kernel, number)
        path = folder / f"k{number + 1}.c"
        path.write_text(source)
        given.append(str(path))
        entries.append(
            f'[[kernel]]\nguid = "k{number + 1}"\nsource = "{path.name}"\n{types}\n{described}\ncomplete = true\n'
        )
    (folder / "all.toml").write_text("\n".join(entries))
    building.build([*given, str(folder / "all.toml")], folder / "lib.so", Options())
    return Library(folder / "lib.so")


def found(library: Library, name: str, guid: str) -> tuple[list[str], bool]:
    """What checks say about a kernel, and whether its values differ."""
    kernel = KERNELS[name]
    inputs = kernel.inputs()
    wanted = kernel.reference(inputs)

    def outputs() -> Tensors:
        return [torch.full_like(each.float(), 7.0).to(each.dtype) for each in wanted]

    try:
        errors = library.check(guid, inputs, outputs(), kernel.parameters).errors
        results = outputs()
        library.run(guid, inputs, results, kernel.parameters, pieces=2)
    except KernelError as error:
        return [str(error)], True
    tolerance = {"rtol": 1e-4, "atol": 1e-5, "equal_nan": False}
    alike = [torch.allclose(a.float(), b.float(), **tolerance) for a, b in zip(results, wanted, strict=True)]
    return errors, not all(alike)


def campaign(names: list[str]) -> int:
    """Every fault of these kernels. Returns how many were not found."""
    by_checks = by_values = missed = planted = 0
    for name in names:
        kernel = KERNELS[name]
        numbers = list(range(len(kernel.faults)))
        with tempfile.TemporaryDirectory() as folder:
            library = built(name, numbers, Path(folder))
            errors, differs = found(library, name, "k0")
            if errors or differs:
                raise ValueError(f"{name} without a fault: {errors or 'other values'}")
            for number in numbers:
                errors, differs = found(library, name, f"k{number + 1}")
                planted += 1
                by_checks += bool(errors)
                by_values += not errors and differs
                missed += not errors and not differs
                how = errors[0] if errors else "other values" if differs else "NOT FOUND"
                print(f"{name} {number}: {kernel.faults[number][1]!r}: {how}", flush=True)
    print(f"{planted} faults: {by_checks} named by checks, {by_values} by values alone, {missed} not found")
    return missed


if __name__ == "__main__":
    sys.exit(1 if campaign(sys.argv[1:] or list(KERNELS)) > MOST_MISSED else 0)
