# Trains a language model with optimum-habana.
import json

import torch
from optimum.habana import GaudiConfig, GaudiTrainer, GaudiTrainingArguments
from optimum.habana.transformers.modeling_utils import adapt_transformers_to_gaudi
from transformers import GPT2Config, GPT2LMHeadModel

adapt_transformers_to_gaudi()
torch.manual_seed(9)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
)
ids = [(torch.arange(16) * (row + 1)) % 60 + 2 for row in range(16)]
gaudi_config = GaudiConfig(use_fused_adam=True, use_fused_clip_norm=True)
trainer = GaudiTrainer(
    model=model,
    gaudi_config=gaudi_config,
    args=GaudiTrainingArguments(
        output_dir="out",
        use_habana=True,
        use_lazy_mode=False,
        max_steps=3,
        logging_steps=1,
        learning_rate=1e-3,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    ),
    train_dataset=[{"input_ids": row, "labels": row} for row in ids],
)
trainer.train()
print(json.dumps([entry["loss"] for entry in trainer.state.log_history if "loss" in entry]))
