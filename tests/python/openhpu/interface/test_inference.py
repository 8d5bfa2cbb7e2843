import pytest
import torch

from openhpu import settings
from openhpu.interface import inference


def model():
    return torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU())


def test_inference_mode_begins_and_ends(hpu):
    inference.hpu_inference_initialize(model())
    assert settings.get("PT_HPU_INFERENCE_MODE")
    inference.hpu_teardown_inference_env()
    assert not settings.get("PT_HPU_INFERENCE_MODE")


def test_batch_norms_are_folded(hpu):
    original = model().eval()
    original[1].running_mean.fill_(0.5)
    folded = inference.hpu_inference_set_env(original)
    inference.hpu_teardown_inference_env()
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in folded.modules())
    x = torch.ones(1, 1, 5, 5)
    torch.testing.assert_close(folded(x), original(x))
    torch.testing.assert_close(folded.to("hpu")(x.hpu()).cpu(), original(x))


def test_what_cannot_be_folded(hpu):
    plain = torch.nn.Linear(2, 2).eval()
    assert inference.hpu_set_inference_env(plain) is plain
    with pytest.raises(RuntimeError, match=r"call model.eval\(\) first"):
        inference.hpu_set_inference_env(model().train())

    class Untraceable(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm2d(1)

        def forward(self, x):
            return self.norm(x) if x.sum() > 0 else x

    untraceable = Untraceable().eval()
    with pytest.warns(UserWarning, match="batch norms are not folded"):
        assert inference.hpu_set_inference_env(untraceable) is untraceable
    inference.hpu_teardown_inference_env()


def test_old_names_warn(hpu):
    for name in ("hpu_set_env", "hpu_initialize", "hpu_reset_env"):
        with pytest.warns(FutureWarning, match=f"htcore.{name} is deprecated"):
            getattr(inference, name)()


def test_half_precision_is_refused_on_gaudi_1(hpu):
    half = torch.nn.Linear(2, 2).half()
    for function in (inference.hpu_set_inference_env, inference.hpu_inference_initialize):
        with (
            settings.overridden("OPENHPU_GENERATION", "gaudi"),
            pytest.raises(RuntimeError, match=r"float16 is not supported on Gaudi 1.*weight.*bfloat16"),
        ):
            function(half.eval())
        function(half.eval())
    inference.hpu_teardown_inference_env()


def test_parameters_that_are_marked_as_constants():
    from habana_frameworks.torch.core import quantization as q

    model = torch.nn.BatchNorm1d(3).to("hpu")
    with pytest.raises(RuntimeError, match="weight of BatchNorm1d is not marked"):
        q._check_params_as_const(model)
    before = q._get_marked_const_count()
    q._mark_params_as_const(model)
    q._mark_params_as_const(model)
    assert q._get_marked_const_count() == before + 5
    q._check_params_as_const(model)
