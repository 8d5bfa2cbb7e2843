"""A trainer class with callbacks, device "auto", a sampler with replacement, and workers that pin memory."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler


class Sorting(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        numbers = torch.tensor([(index * 7 + k * k) % 5 for k in range(6)])
        return numbers, numbers.sort()[0]


class Trainer:
    def __init__(self, model, data):
        self.device = os.environ.get("DEVICE", "auto")
        if self.device == "auto":
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model, self.data, self.callbacks = model.to(self.device), data, []
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def run(self):
        loader = DataLoader(
            self.data, sampler=RandomSampler(self.data, replacement=True, num_samples=64), batch_size=8,
            pin_memory=self.device != "cpu", num_workers=0,
        )  # fmt: skip
        self.model.train()
        for batch in loader:
            x, y = [t.to(self.device) for t in batch]
            logits = self.model(x)
            self.loss = nn.functional.cross_entropy(logits.reshape(-1, 5), y.reshape(-1))
            self.model.zero_grad(set_to_none=True)
            self.loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            for callback in self.callbacks:
                callback(self)


torch.manual_seed(3407)
torch.cuda.manual_seed_all(3407)
layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
trainer = Trainer(
    nn.Sequential(nn.Embedding(5, 16), nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(16, 5)),
    Sorting(),
)
trainer.callbacks.append(lambda trainer: print(f"{trainer.loss.item():.4f}"))
trainer.run()
