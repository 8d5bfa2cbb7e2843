"""Names of hpex that scripts and libraries import."""

import importlib

import pytest


def test_every_name_of_the_binding_is_there(hpu):
    from openhpu.interface.hpex import bindings

    core = importlib.import_module("habana_frameworks.torch._hpex_C")
    assert all(callable(getattr(core, name)) for name in bindings.NAMES)
    with pytest.raises(AttributeError, match=r"roi_align_forward'; use torchvision"):
        _ = core.roi_align_forward


def test_grouped_heads_of_both_attentions(hpu):
    from openhpu.interface.hpex import attention

    for module in ("FusedSDPA", "Fp8FusedSDPA"):
        found = importlib.import_module(f"habana_frameworks.torch.hpex.kernels.{module}")
        for name in ("is_gqa", "gqa_input_reshape_fwd", "gqa_output_reshape"):
            assert getattr(found, name) is getattr(attention, name)


def test_the_shape_of_the_table(hpu):
    """Each operator is callable under its name; what is not built is not half there."""
    import torch

    from openhpu.interface.gaudi_ops import namespace
    from openhpu.interface.gaudi_ops.not_built import REFUSED
    from openhpu.interface.gaudi_ops.registry import rows

    namespace.define()
    names = [row.name for row in rows()]
    assert len(names) == len(set(names))
    assert not set(names) & set(REFUSED)
    assert len(REFUSED) <= 20
    for row in rows():
        packet, _, overload = row.name.partition(".")
        assert getattr(getattr(torch.ops.hpu, packet), overload or "default") is not None
        assert row.made_of
