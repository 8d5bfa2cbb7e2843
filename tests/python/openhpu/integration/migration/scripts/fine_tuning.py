"""Fine-tuning of an encoder without a trainer: parameter groups, a warmup schedule, padded batches."""

import os

import torch
from torch import nn

device = (
    torch.device("cuda") if os.environ.get("DEVICE") != "cpu" and torch.cuda.is_available() else torch.device("cpu")
)
n_gpu = torch.cuda.device_count() if device.type != "cpu" else 0
torch.manual_seed(42)
if n_gpu > 0:
    torch.cuda.manual_seed_all(42)
    assert torch.cuda.get_device_capability(device)[0] >= 8
    assert torch.cuda.get_device_properties(device).total_memory > 0


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(50, 16, padding_idx=0), nn.LayerNorm(16)
        self.attention, self.classifier = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 3)

    def forward(self, input_ids, attention_mask, labels):
        x = self.embed(input_ids)
        mixed, _ = self.attention(x, x, x, key_padding_mask=attention_mask == 0, need_weights=False)
        logits = self.classifier(self.norm(x + mixed)[:, 0])
        return nn.functional.cross_entropy(logits, labels), logits


model = Classifier()
no_decay = ("bias", "norm.weight")
named = list(model.named_parameters())
groups = [
    {"params": [p for n, p in named if n.endswith(no_decay)], "weight_decay": 0.0},
    {"params": [p for n, p in named if not n.endswith(no_decay)], "weight_decay": 0.1},
]
model.to(device)
optimizer = torch.optim.AdamW(groups, lr=1e-2)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
for step in range(6):
    lengths = torch.randint(3, 8, (4,)).tolist()
    ids = [torch.randint(1, 50, (length,)) for length in lengths]
    batch = {"input_ids": nn.utils.rnn.pad_sequence(ids, batch_first=True), "labels": torch.randint(3, (4,))}
    batch["attention_mask"] = (batch["input_ids"] != 0).long()
    batch = {key: value.to(device) for key, value in batch.items()}
    loss, logits = model(**batch)
    (loss / 2).backward()
    if step % 2:
        optimizer.step()
        warmup.step()
        optimizer.zero_grad()
    print(f"{loss.item():.4f} {(logits.argmax(-1) == batch['labels']).sum().item()}")
