"""The optimizer that GaudiConfig chooses."""

import pytest
import torch
from optimum.habana import GaudiConfig, GaudiTrainer, GaudiTrainingArguments

from ecosystem.optimum_habana.support import KEYS, LAZY, make


@pytest.mark.parametrize(("fused", "name"), [(True, "FusedAdamW"), (False, "AdamW")])
def test_optimizer(tmp_path, fused, name):
    """The fused one is the device's."""
    arguments = GaudiTrainingArguments(output_dir=str(tmp_path), use_habana=True, use_lazy_mode=LAZY, report_to=[])
    trainer = GaudiTrainer(make(KEYS["GPT2"]), gaudi_config=GaudiConfig(use_fused_adam=fused), args=arguments)
    assert type(trainer.create_optimizer()).__name__ == name
    assert all(p.device == torch.device("hpu", 0) for p in trainer.model.parameters())
