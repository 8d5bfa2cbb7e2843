"""GaudiConfig and the arguments of a training."""

import pytest
import torch
from optimum.habana import GaudiConfig, GaudiTrainer, GaudiTrainingArguments

from ecosystem.optimum_habana.support import KEYS, LAZY, make


def test_saved_and_loaded(tmp_path):
    made = GaudiConfig(use_fused_adam=True, use_fused_clip_norm=True, use_torch_autocast=True)
    made.save_pretrained(tmp_path)
    assert (tmp_path / "gaudi_config.json").exists()
    loaded = GaudiConfig.from_pretrained(tmp_path)
    assert loaded.use_fused_adam and loaded.use_fused_clip_norm and loaded.use_torch_autocast
    assert loaded.to_dict() == made.to_dict()


def test_device_of_arguments(tmp_path):
    arguments = GaudiTrainingArguments(output_dir=str(tmp_path), use_habana=True, use_lazy_mode=LAZY, report_to=[])
    assert arguments.device.type == "hpu"
    assert arguments.world_size == 1


@pytest.mark.parametrize(("fused", "name"), [(True, "FusedAdamW"), (False, "AdamW")])
def test_optimizer(tmp_path, fused, name):
    """The fused one is the device's."""
    arguments = GaudiTrainingArguments(output_dir=str(tmp_path), use_habana=True, use_lazy_mode=LAZY, report_to=[])
    trainer = GaudiTrainer(make(KEYS["GPT2"]), gaudi_config=GaudiConfig(use_fused_adam=fused), args=arguments)
    assert type(trainer.create_optimizer()).__name__ == name
    assert all(p.device == torch.device("hpu", 0) for p in trainer.model.parameters())
