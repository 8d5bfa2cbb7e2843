# Lightning's Trainer, with Gaudi's accelerator and strategy.
import json

import torch
from lightning import LightningModule, Trainer
from torch import nn

from lightning_habana import HPUAccelerator, SingleHPUStrategy


class Classifier(LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.losses = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), []

    def training_step(self, batch):
        x, y = batch
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


torch.manual_seed(6)
classifier = Classifier()
data = torch.utils.data.TensorDataset(torch.randn(24, 16), torch.randint(0, 4, (24,)))
quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
trainer = Trainer(accelerator=HPUAccelerator(), devices=1, strategy=SingleHPUStrategy(), max_epochs=2, **quiet)
trainer.fit(classifier, torch.utils.data.DataLoader(data, batch_size=8))
print(json.dumps(classifier.losses))
