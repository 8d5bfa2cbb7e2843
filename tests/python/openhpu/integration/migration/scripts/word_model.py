"""A recurrent language model with hidden states that are detached, and a clipped plain SGD step by hand."""

import math
import os

import torch
from torch import nn

torch.manual_seed(1111)
if torch.cuda.is_available():
    torch.cuda.manual_seed(1111)
device = torch.device(os.environ.get("DEVICE", "cuda"))
words = ("the cat sat on the mat and the dog sat on the cat " * 12).split()
index = {word: k for k, word in enumerate(dict.fromkeys(words))}
ids = torch.tensor([index[word] for word in words]).type(torch.int64)
data = ids[: len(ids) // 4 * 4].view(4, -1).t().contiguous().to(device)


class Words(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(number, 16), nn.LSTM(16, 16, 2)
        self.decoder = nn.Linear(16, number)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, x, hidden):
        output, hidden = self.rnn(self.encoder(x), hidden)
        return torch.log_softmax(self.decoder(output).view(-1, len(index)), dim=1), hidden

    def init_hidden(self, size):
        weight = next(self.parameters())
        return weight.new_zeros(2, size, 16), weight.new_zeros(2, size, 16)


model, criterion = Words(len(index)).to(device), nn.NLLLoss()
hidden = model.init_hidden(4)
for start in range(0, 30, 5):
    hidden = tuple(state.detach() for state in hidden)
    model.zero_grad()
    output, hidden = model(data[start : start + 5], hidden)
    loss = criterion(output, data[start + 1 : start + 6].view(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for weight in model.parameters():
        weight.data.add_(weight.grad, alpha=-20.0 / 4)
    print(f"{loss.item():.4f} {math.exp(loss.item()):.2f}")
with open("model.pt", "wb") as file:
    torch.save(model.state_dict(), file)
with open("model.pt", "rb") as file:
    model.load_state_dict(torch.load(file, map_location=device))
model.rnn.flatten_parameters()
with torch.no_grad():
    word, hidden = torch.zeros(1, 1, dtype=torch.long, device=device), model.init_hidden(1)
    for _ in range(4):
        output, hidden = model(word, hidden)
        word.fill_(output.squeeze().argmax())
        print(word.item())
