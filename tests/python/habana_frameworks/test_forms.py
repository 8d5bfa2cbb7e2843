"""Forms that programs for Gaudi use, each with what it has to do. Others are refused with a reason."""

import importlib
import sys

import pytest
import torch

HABANA = "habana_frameworks.torch."


def fp8_ops(module):
    x = torch.tensor([1.0, -3.0], device="hpu")
    found = module.cast_to_fp8_v2(x, None, False, False, torch.float8_e4m3fn)[0]
    assert found.dtype is torch.float8_e4m3fn
    assert found.float().tolist() == [1.0, -3.0]
    assert module.cast_to_fp8_v2(x, torch.tensor(2.0, device="hpu"), is_amax=True)[1].item() == 3.0
    assert module.cast_from_fp8(found, None, torch.bfloat16).tolist() == [1.0, -3.0]
    product = module.fp8_gemm_v2(found[None], False, found[None], True, None, torch.float32)
    assert product.item() == 10.0


def a_trace_by_hand(module):
    assert all(callable(getattr(module, name)) for name in ("start", "stop", "flush"))


def graphs_of_dynamo(module):
    assert module.FxGraphAnalyzer.__name__ == "FxGraphAnalyzer"
    assert module.OpCount(2, 1).eager_count == 1


def debug_functions(module):
    assert module._get_jit_cache_size() >= 0
    with pytest.raises(AttributeError, match=r"_debug_C' has no attribute '_towl_configure': it looks into Gaudi's"):
        _ = module._towl_configure


def an_empty_list_of_operators(module):
    assert list(module.hpu_fallback_op_list) == []


# The module, and what programs do with it. Sources: optimum-habana (Fp8Ops), Gaudi's documents (gaudi-api 1.5, 1.6).
FORMS = [
    ("hpex.kernels.Fp8Ops", fp8_ops),
    ("low_overhead_profiler.profiler", a_trace_by_hand),
    ("dynamo.debug_utils", graphs_of_dynamo),
    ("utils.dynamo_utils", graphs_of_dynamo),
    ("utils.debug.dynamo_utils", graphs_of_dynamo),
    ("utils._debug_C", debug_functions),
    ("dynamo.compile_backend.shared_layer", an_empty_list_of_operators),
]


@pytest.mark.parametrize(("name", "use"), FORMS, ids=[name for name, _ in FORMS])
def test_a_module_and_its_use(hpu, name, use):
    use(importlib.import_module(HABANA + name))


def test_an_operator_without_a_public_description_is_refused(hpu):
    """Libraries ask by `hasattr`, and have another way where it is not there."""
    assert not hasattr(torch.ops.hpu, "cast_to_fp8_just_in_time")
    with pytest.raises(AttributeError, match=r"cast_to_fp8_just_in_time': no public description of its arguments"):
        _ = torch.ops.hpu.cast_to_fp8_just_in_time


def test_a_module_that_lacks_a_package_says_which(hpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchao", None)
    monkeypatch.delitem(sys.modules, HABANA + "core.quantizer", raising=False)
    with pytest.raises(
        ImportError, match=r"core.quantizer is not there: it quantises by torchao's pt2e, .* install it"
    ):
        importlib.import_module(HABANA + "core.quantizer")


# Names that optimum-habana 1.21 uses, by their module.
NAMES = [
    ("core", "mark_step hpu_initialize hpu_set_env hpu_inference_initialize hpu_set_inference_env"),
    ("core.hpu", "ModuleCacher default_stream set_device is_available device_count memory_stats"),
    ("hpu", "wrap_in_hpu_graph stream HPUGraph synchronize Stream default_stream sdp_kernel memory_allocated"),
    ("hpu", "is_autocast_hpu_enabled get_autocast_hpu_dtype is_initialized get_device_name enable_dynamic_shape"),
    ("hpu", "disable_dynamic_shape enable_const_section_serialization memory_stats ModuleCacher"),
    ("hpu.graphs", "input_hash copy_to CachedParams"),
    ("hpu.random", "get_rng_state get_rng_state_all set_rng_state set_rng_state_all manual_seed_all"),
    ("hpex.kernels", "FusedSDPA RotaryPosEmbeddingHelperV2 RotaryPosEmbeddingHelperV3 CTCLoss apply_rotary_pos_emb"),
    ("hpex.kernels", "RotaryPosEmbeddingMode"),
    ("hpex.normalization", "FusedRMSNorm FusedClipNorm"),
    ("hpex.experimental.transformer_engine", "Linear fp8_autocast"),
    ("utils.experimental", "_get_device_type synDeviceType hpu"),
    ("dynamo.compile_backend.experimental", "enable_compiled_autograd"),
]


@pytest.mark.parametrize(("module", "names"), NAMES)
def test_names_of_a_library(hpu, module, names):
    found = (
        importlib.import_module(HABANA + module) if module != "core.hpu" else importlib.import_module(HABANA + "hpu")
    )
    assert [name for name in names.split() if not hasattr(found, name)] == []
