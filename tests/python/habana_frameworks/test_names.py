"""The names that scripts and libraries import."""

import importlib
import importlib.metadata
import sys

import pytest
import torch
from packaging.version import Version

from openhpu.observe.smi import facts


def test_the_packages_and_their_attributes(hpu):
    import habana_frameworks.torch as ht

    assert ht.torch is torch
    assert ht.core.hpu is ht.hpu is torch.hpu
    for name in ("mark_step", "iter_mark_step", "add_step_closure", "hpu_inference_initialize"):
        assert callable(getattr(ht.core, name))
    assert callable(ht.core.quantization.hpu_set_inference_env)
    assert ht.core.step_closure._mark_step_if_lazy() is None


def test_the_imports_of_gaudi_scripts(hpu):
    for name in (
        "activity_profiler",
        "core",
        "core.step_closure",
        "hpex",
        "hpex.experimental.transformer_engine",
        "hpex.experimental.transformer_engine.distributed",
        "hpex.experimental.transformer_engine.fp8",
        "hpex.experimental.transformer_engine.recipe",
        "hpex.kernels",
        "hpex.kernels.Fp8FusedSDPA",
        "hpex.kernels.Softmax",
        "hpex.kernels.fbgemm",
        "hpex.movingavrg",
        "hpex.normalization",
        "hpex.optimizers",
        "hpex.optimizers.distributed",
        "hpu.graphs",
        "hpu.metrics",
        "hpu.random",
        "internal.bridge_config",
        "low_overhead_profiler",
        "profiler",
        "utils.debug",
        "utils.event_dispatcher",
        "utils.experimental",
        "utils.internal",
        "utils.library_loader",
        "utils.profiler",
    ):
        whole = f"habana_frameworks.torch.{name}"
        assert importlib.import_module(whole) is sys.modules[whole]


def test_versions_of_pytorch():
    from habana_frameworks.torch.utils.version_checker import is_pytorch_at_least

    assert [is_pytorch_at_least(one) for one in ("1.13", "2.13.0", "2.9.1", "2.99", "10.0")] == [True] * 3 + [False] * 2
    with pytest.raises(ValueError, match="version is 'new'; expected one like"):
        is_pytorch_at_least("new")


def test_packages_that_are_named_without_an_import(script):
    code = """
        import habana_frameworks.torch as ht
        config = ht.dynamo.compile_backend.config
        config.use_eager_fallback = False
        import habana_frameworks.torch.dynamo.compile_backend as backend
        print(backend.config is config, config.use_eager_fallback, ht.hpex.__name__, ht.distributed.__name__)
        print(hasattr(ht, "nothing"), hasattr(ht.dynamo, "nothing"))
    """
    assert script(code).out.splitlines() == [
        "True False habana_frameworks.torch.hpex habana_frameworks.torch.distributed",
        "False False",
    ]


def test_experimental(hpu):
    from habana_frameworks.torch.utils import debug, experimental

    assert experimental._get_device_type() == experimental.synDeviceType.synDeviceGaudi2
    assert experimental._is_fp16_supported()
    assert experimental._set_is_dynamic_quantization(True) is None
    assert experimental._set_scale_attributes(True, 3) is None
    x = torch.ones(4, device="hpu")
    assert experimental._data_ptr(x) == x.data_ptr() != 0
    assert debug.get_tensor_info(x) == (x.data_ptr(), 16)
    for function in (experimental._data_ptr, debug.get_tensor_info):
        with pytest.raises(RuntimeError, match="got one on cpu"):
            function(x.cpu())


def test_loading_and_lazy_only(hpu):
    from habana_frameworks.torch.utils.internal import Timer, lazy_only
    from habana_frameworks.torch.utils.library_loader import is_habana_available, load_habana_module

    load_habana_module()
    assert is_habana_available()
    assert lazy_only(lambda: 1)() is None
    with Timer() as timer:
        pass
    assert timer.elapsed >= 0


def test_bridge_config(hpu, environment):
    from habana_frameworks.torch.internal import bridge_config

    environment(PT_HPU_MAX_COMPOUND_OP_SIZE="5")
    assert bridge_config.get_pt_hpu_max_compound_op_size() == 5
    assert bridge_config.get_pt_compile_only_mode() is False
    with bridge_config.env_setting("PT_COMPILE_ONLY_MODE", True):
        assert bridge_config.get_pt_compile_only_mode() is True
    assert bridge_config.get_pt_compile_only_mode() is False
    with pytest.raises(KeyError, match="PT_HPU_LAZY_MODE"), bridge_config.env_setting("PT_HPU_LAZY_MODE", 1):
        pass
    assert "get_pt_hpu_lazy_mode" in dir(bridge_config)
    for name in ("get_no_such_flag", "set_pt_hpu_lazy_mode"):
        with pytest.raises(AttributeError, match=name):
            getattr(bridge_config, name)


def test_the_old_top_level_package(hpu):
    import torch_hpu

    for name in ("is_available", "device_count", "get_device_name"):
        with pytest.warns(FutureWarning, match=rf"use torch\.hpu\.{name}"):
            assert getattr(torch_hpu, name)() == getattr(hpu, name)()


def test_the_distribution_that_libraries_look_for():
    version = importlib.metadata.version("habana-torch-plugin")
    assert version == facts.SOFTWARE_VERSION
    assert Version(version) >= Version("1.24.0.460")  # what libraries ask for


def test_fused_attention_is_a_class_and_a_module(hpu):
    from habana_frameworks.torch.hpex.kernels import FusedSDPA
    from habana_frameworks.torch.hpex.kernels.FusedSDPA import is_gqa

    assert isinstance(FusedSDPA, type)
    assert callable(FusedSDPA.apply)
    assert callable(is_gqa)


def test_gaudis_operators_are_in_the_dispatcher_where_hpex_is_imported(hpu):

    assert "fp8_gemm_v2" in dir(torch.ops.hpu)
    assert torch._C._get_schema("hpu::rms_norm", "").name == "hpu::rms_norm"
    with pytest.raises(AttributeError, match="hpu"):
        _ = torch.ops.hpu.no_such_operator
