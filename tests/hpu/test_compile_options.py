"""Options of `hpu_backend`: all of Gaudi's are accepted and checked; those with a meaning here do what they say."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from habana_frameworks.torch.dynamo.compile_backend import config
from openhpu import settings
from openhpu.capture.torch_compile import options as options_module
from openhpu.capture.torch_compile.options import VARIABLES as OPTIONS
from tests.hpu.support import compiled_agrees, line

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def compiled(function, **options):
    return torch.compile(function, backend="hpu_backend", fullgraph=True, **options)


def frozen(model, rows=(4, 4, 4), **options):
    """The model with frozen weights, which agrees with it in a call for each number of rows."""
    with torch.no_grad():
        return compiled_agrees(
            model,
            lambda k: (torch.randn(rows[k], 6).to("hpu"),),
            calls=len(rows),
            fullgraph=True,
            options={"use_graph_freezing": True, **options},
        )


def small_model():
    layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3)
    return nn.Sequential(*layers).eval().to("hpu")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"no_such": 1}, "there is no option 'no_such'; the options are use_compiled_recipes"),
        ({"decomposition_mode": "all"}, "option 'decomposition_mode'"),
        ({"use_graph_freezing": "perhaps"}, "option 'use_graph_freezing'"),
        ({"force_static_compile": 3}, "option 'force_static_compile'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(Exception, match=message):
        compiled(lambda x: x + 1, options=options)(torch.ones(2, device="hpu"))


def test_all_of_gaudis_options_are_accepted():
    assert len(OPTIONS) == 18
    for flip in (False, True):
        options = {name: settings.get(row.name) for name, row in OPTIONS.items()}
        if flip:
            options |= {k: not v for k, v in options.items() if isinstance(v, bool) and k != "use_eager_fallback"}
        given = lambda k: (torch.ones(2, device="hpu"),)  # noqa: E731
        compiled_agrees(lambda x: nn.functional.gelu(x) + 1, given, options=options, fullgraph=True)


def test_which_options_have_an_effect():
    """Those that the backend reads are those that the table of settings calls effective, and no others."""
    sources = Path(options_module.__file__).parent.glob("*.py")
    read = {name for source in sources for name in re.findall(r"(?:options|settings)\.(\w+)", source.read_text())}
    assert read & OPTIONS.keys() == {name for name, row in OPTIONS.items() if row.effective}


def test_the_document_says_so():
    rows = {}
    for row in (Path(__file__).parents[2] / "docs" / "compile.md").read_text(encoding="utf-8").splitlines():
        if row.startswith("| `"):
            name, variable, default, effect = (cell.strip(" `") for cell in row.strip("|").split(" | "))
            rows[name] = variable, default, not effect.startswith("None:")
    assert rows == {name: (row.name, row.show_default(), row.effective) for name, row in OPTIONS.items()}


def test_environment_and_argument(monkeypatch):
    monkeypatch.setenv("PT_HPU_COMPILE_GRAPH_FREEZE", "1")
    assert options_module.read().use_graph_freezing
    assert not options_module.read({"use_graph_freezing": False}).use_graph_freezing


def test_the_configuration_is_honoured():
    x = torch.ones(3, device="hpu")
    assert config.use_eager_fallback is config.configuration_flags["use_eager_fallback"] is True
    with settings.overridden("PT_HPU_USE_EAGER_FALLBACK", True):  # put back afterwards
        config.use_eager_fallback = False
        with pytest.raises(Exception, match=r"aten::digamma"):
            compiled(lambda x: torch.digamma(x) * 2)(x)
        config.configuration_flags["use_eager_fallback"] = True
        torch._dynamo.reset()
        assert compiled(lambda x: torch.digamma(x) * 2)(x).shape == (3,)


def test_an_unknown_option_is_an_error():
    with pytest.raises(AttributeError, match=r"no option 'speed'; the options are use_compiled_recipes"):
        config.speed = 1
    with pytest.raises(KeyError, match=r"no option 'speed'"):
        config.configuration_flags["speed"] = 1
    with pytest.raises(AttributeError, match=r"no option 'speed'"):
        _ = config.speed
    assert "inference" in dir(config)
    assert len(config.configuration_flags) == 18


def test_without_recipes(counted):
    x = torch.ones(2, device="hpu")
    f = compiled(lambda x: nn.functional.gelu(x) + 1, options={"use_compiled_recipes": False})
    f(x)
    with counted(graph_replays=0) as moved:
        f(x)
    assert moved["ops_submitted"] + moved["ops_recorded"] == 2


def test_decompositions(compiled_graphs):
    x = torch.ones(2, device="hpu")
    f = compiled(lambda x: nn.functional.silu(x) + 1, options={"decomposition_mode": "core_aten"})
    torch.testing.assert_close(f(x), nn.functional.silu(x) + 1)
    assert "aten::silu" not in compiled_graphs[-1].layout.clusters[0]


@pytest.mark.parametrize("kept", [True, False])
def test_writes_to_inputs(kept, compiled_graphs):
    def work(x):
        x.mul_(2)
        return x + 1

    with torch.no_grad():
        compiled_agrees(
            work, lambda k: (torch.full((2,), float(k), device="hpu"),), options={"keep_input_mutations": kept}
        )
    (graph,) = compiled_graphs
    assert ("aten::copy_" in graph.layout.clusters[0]) == kept


@pytest.mark.parametrize("in_place", [True, False])
def test_rows_are_written_in_place(in_place, compiled_graphs):
    """The first call takes no second cache; what is read after the write is what was written, before it the old."""

    def work(cache, slots, rows):
        old = cache[:1] + 1
        cache.index_copy_(0, slots, rows)
        return old, cache.index_select(0, slots)

    f = compiled(work, options={"use_inplace_index_copy": in_place})
    slots = torch.tensor([0, 3, -1], device="hpu")
    cache = torch.zeros(1 << 12, 256, device="hpu")
    with torch.no_grad():
        for k in range(1, 4):
            rows = torch.full((3, 256), float(k), device="hpu")
            torch.hpu.synchronize()
            torch.hpu.reset_peak_memory_stats()
            before = torch.hpu.memory_allocated()
            old, read = f(cache, slots, rows)
            torch.hpu.synchronize()
            copied = torch.hpu.max_memory_allocated() - before >= cache.nbytes
            assert copied == (not in_place) or k > 1
            assert old[0, 0].item() == k
            assert read[:, 0].tolist() == [k, k, 0]
            assert cache[:, 0].nonzero().flatten().tolist() == [0, 3]
            assert cache[3].tolist() == [k] * 256
    (graph,) = compiled_graphs
    assert ("aten::index_copy_" in graph.layout.clusters[0]) == in_place


@pytest.mark.parametrize("own", [True, False])
def test_the_inference_compiler(own, compiled_graphs):
    """Without it graphs of inference are forward graphs, whose weights are inputs."""
    frozen(small_model(), inference=own)
    (graph,) = compiled_graphs
    assert graph.kind == ("inference" if own else "forward")
    assert bool(graph.clusters[0].weights) == own


class TestFreezing:
    """Weights are constants of the graph as long as they are what they were; then they are inputs again."""

    def test_weights_that_are_replaced(self, compiled_graphs):
        model = small_model()
        f = frozen(model)
        x = torch.randn(4, 6, device="hpu")
        with torch.no_grad():
            model[0].weight.data = torch.ones(8, 6, device="hpu")
            for _ in range(2):
                torch.testing.assert_close(f(x), model(x))
            model[3].weight = nn.Parameter(torch.ones(3, 8, device="hpu"))
            for _ in range(2):
                torch.testing.assert_close(f(x), model(x))
        (cluster,) = compiled_graphs[0].clusters
        assert not cluster.weights
        assert len(cluster.captures) == 1

    def test_tied_weights_and_results_that_are_weights(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Linear(6, 6)
                self.second = nn.Linear(6, 6)
                self.second.weight = self.first.weight
                self.register_buffer("table", torch.arange(3.0))

            def forward(self, x):
                return self.second(self.first(x)), self.first.weight.t(), self.table

        model = Tied().eval().to("hpu")
        f = frozen(model)
        x = torch.randn(4, 6, device="hpu")
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(f(x), model(x))
                assert f(x)[1].data_ptr() == model.first.weight.data_ptr()
                model.first.weight.add_(1)

    def test_parts_of_a_graph(self, compiled_graphs):
        class Digamma(nn.Module):
            def forward(self, x):
                return torch.digamma(x.sigmoid() + 1)  # not in Gaudi's table

        frozen(nn.Sequential(nn.Linear(6, 4), Digamma(), nn.Linear(4, 2)).eval().to("hpu"))
        assert [len(cluster.weights) for cluster in compiled_graphs[0].clusters] == [2, 2]

    def test_sizes_that_change(self, compiled_graphs):
        """Such a graph has one recipe for all sizes, and its weights stay inputs."""
        frozen(small_model(), (2, 3, 4, 3), force_static_compile=True)
        assert [bool(graph.clusters[0].weights) for graph in compiled_graphs] == [True, False]


def test_without_eager_fallback_an_error_names_operator_and_line():
    def work(x):
        return torch.nonzero(x + 1)

    number = line() - 2
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        f = compiled(work, options={"use_eager_fallback": False})
        with pytest.raises(Exception) as error:
            f(torch.ones(3, device="hpu"))
    assert "aten::nonzero can't be part of a compiled graph" in str(error.value)
    assert f'test_compile_options.py", line {number}' in str(error.value)
    assert "torch.nonzero(x + 1)" in str(error.value)


def test_modes_of_torch_compile():
    """Those of Inductor are accepted and change no number; another one is refused with their names."""
    for mode in options_module.MODES:
        f = torch.compile(lambda x: x * 2 + 1, backend="hpu_backend", mode=mode)
        assert f(torch.ones(3, device="hpu")).tolist() == [3.0] * 3
        torch._dynamo.reset()
    with pytest.raises(ValueError, match=r"mode='fast' is not known; expected one of default, reduce-overhead"):
        options_module.read(mode="fast")
