"""The exponential function of generated code."""

import pytest
import torch

from tests.processes import clean_environment, run_code

SPECIAL = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 88.7, 89.0, 1e4, -87.3, -104.0, -1e4, 1e-30]


# In a process of its own, as the compile process is: what recipes are made with is no part of a user's.
SCRIPT = """
    from pathlib import Path
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from openhpu.compiler.inductor import inductor

    def program(a, b, c, d, e):
        # In the last one, a vector of 64-bit numbers beside it makes two registers of one vector of 32-bit ones.
        return a.exp(), b.sigmoid(), c.exp(), d.exp(), e.exp().double() * 2

    inputs = torch.load("inputs.pt")
    graph = make_fx(program, tracing_mode="fake", decomposition_table=inductor.decompositions())(*inputs)
    mode, folder = FakeTensorMode(), Path("recipe").absolute()
    folder.mkdir()
    inductor.build(graph, [mode.from_tensor(x) for x in inputs], 1, folder)
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu("recipe/recipe.so", 1)
    torch.save(runner.run(inputs), "outputs.pt")
"""


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """({what: (its input, what generated code gives)}, the code); one library for all."""
    inputs = {
        "exp": torch.cat([torch.tensor(SPECIAL), torch.linspace(-87, 88, 100_003)]),
        "sigmoid": torch.cat([torch.tensor(SPECIAL), torch.linspace(-20, 20, 100_001)]),
        "double": torch.linspace(-700, 700, 1001, dtype=torch.float64),
        "bfloat16": torch.linspace(-20, 20, 1001).to(torch.bfloat16),
        "wide": torch.linspace(-20, 20, 1003),
    }
    folder = tmp_path_factory.mktemp("exp")
    torch.save(list(inputs.values()), folder / "inputs.pt")
    run_code(SCRIPT, folder, clean_environment(folder), "ignore", False)
    outputs = torch.load(folder / "outputs.pt")
    code = "".join(path.read_text() for path in folder.glob("recipe/*.kernel.cpp"))
    return {name: (inputs[name], output) for name, output in zip(inputs, outputs, strict=True)}, code


def units(actual, exact):
    """Units in the last place of float32 between them."""
    nearest = exact.float().abs()
    return (actual.double() - exact).abs() / (torch.nextafter(nearest, torch.tensor(3e38)) - nearest).double()


def test_it_is_within_a_unit_and_a_half_in_the_last_place(computed):
    x, actual = computed[0]["exp"]
    assert units(actual[len(SPECIAL) :], x[len(SPECIAL) :].double().exp()).max() <= 1.5


def test_special_values(computed):
    for name, function in (("exp", torch.exp), ("sigmoid", torch.sigmoid)):
        x, actual = computed[0][name]
        expected = function(x[: len(SPECIAL)])
        torch.testing.assert_close(actual[: len(SPECIAL)], expected, rtol=1e-6, atol=1e-37, equal_nan=True)


def test_sigmoid(computed):
    x, actual = computed[0]["sigmoid"]
    assert units(actual[len(SPECIAL) :], x[len(SPECIAL) :].double().sigmoid()).max() <= 3.5  # and a sum and a quotient


def test_other_dtypes_and_wider_vectors(computed):
    for name, rtol in (("double", 1e-12), ("bfloat16", 2**-7)):
        x, actual = computed[0][name]
        torch.testing.assert_close(actual, x.exp(), rtol=rtol, atol=0)
    x, actual = computed[0]["wide"]
    torch.testing.assert_close(actual, x.double().exp() * 2, rtol=2e-7, atol=0)


def test_the_code_has_it_inlined(computed):
    from torch._inductor.cpu_vec_isa import VecAVX512, pick_vec_isa

    inlined = computed[1].count("_mm512_scalef_ps")
    assert inlined >= 4 if isinstance(pick_vec_isa(), VecAVX512) else inlined == 0


def test_inductor_finds_the_scalar_operator_by_the_name_of_the_function():
    """It looks for it where no operand is a vector."""
    from torch._inductor.codegen.cpp import CppOverrides

    from openhpu.compiler.inductor import vector_exp

    for name in ("exp", "sigmoid"):
        assert getattr(vector_exp, name).__name__ == name
        assert hasattr(CppOverrides, name)
