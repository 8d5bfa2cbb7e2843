"""What compiled functions ask of the device: events, its mode, the backend's configuration."""

import pytest
import torch

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.utils.internal import is_lazy
from tests.hpu.support import compiled

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def of_streams(x):
    stream = torch.hpu.current_stream()
    return x + (stream == torch.hpu.current_stream(0) == torch.hpu.current_stream("hpu"))


def of_devices(x):
    return x + torch.hpu.device_count() if torch.hpu.is_available() else x


@pytest.mark.parametrize(
    "work",
    [of_streams, of_devices, lambda x: x + (0 if is_lazy() else 1), lambda x: x + (0 if htcore.is_lazy() else 1)],
)
def test_a_question_breaks_no_graph(work, compiled_graphs):
    x, f = torch.ones(3, device="hpu"), compiled(work, fullgraph=True)
    for _ in range(2):
        assert torch.equal(f(x), work(x))
    assert len(compiled_graphs) == 1


NATIVE = {
    "prims": lambda x, i: torch.ops.prims.convert_element_type(x, torch.bfloat16) + 1,
    "indices": lambda x, i: x[i, i] * 2,
    "assertion": lambda x, i: (torch._assert_async(x.isfinite().all(), "not finite"), x + 1)[1],
    "8-bit floats": lambda x, i: (x.to(torch.float8_e4m3fn) * 2).to(torch.bfloat16),
    "8-bit product": lambda x, i: torch.mm(x.to(torch.float8_e5m2), x.to(torch.float8_e5m2)).float(),
}


@pytest.mark.parametrize("name", NATIVE)
def test_what_is_native_compiles_where_eager_fallbacks_are_off(name, compiled_graphs):
    x, i = torch.rand(5, 5, device="hpu"), torch.tensor([1, 3], device="hpu")
    f = compiled(NATIVE[name], fullgraph=True, options={"use_eager_fallback": False})
    for _ in range(3):
        torch.testing.assert_close(f(x, i).float(), NATIVE[name](x, i).float())
    assert not compiled_graphs[0].layout.eager


def test_a_compiled_assertion_fails_with_its_message():
    f = compiled(NATIVE["assertion"], options={"use_eager_fallback": False})
    for _ in range(2):
        f(torch.ones(5, 5, device="hpu"), None)
    with pytest.raises(RuntimeError, match=r"not finite"):
        f(torch.full((5, 5), torch.inf, device="hpu"), None)
        torch.hpu.synchronize()


def test_the_configuration_is_honoured():
    from habana_frameworks.torch.dynamo.compile_backend import config
    from openhpu import settings

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
    from habana_frameworks.torch.dynamo.compile_backend import config

    with pytest.raises(AttributeError, match=r"no option 'speed'; the options are use_compiled_recipes"):
        config.speed = 1
    with pytest.raises(KeyError, match=r"no option 'speed'"):
        config.configuration_flags["speed"] = 1
    with pytest.raises(AttributeError, match=r"no option 'speed'"):
        _ = config.speed
    assert "inference" in dir(config) and len(config.configuration_flags) == 18
