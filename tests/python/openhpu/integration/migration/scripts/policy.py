"""Reinforcement learning: episodes of a walk, actions drawn on the host, returns, and a policy gradient."""

import os

import torch
from torch import nn
from torch.distributions import Categorical

device = torch.device(os.environ.get("DEVICE", "cuda:0"))
torch.manual_seed(543)
policy = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for _ in range(5):
    place, log_probabilities, rewards = 0, [], []
    for step in range(10):
        state = torch.tensor([place, step], dtype=torch.float32, device=device).unsqueeze(0)
        logits = policy(state)
        action = Categorical(logits=logits.detach().cpu()).sample()
        log_probabilities.append(Categorical(logits=logits).log_prob(action.to(device)))
        place += 1 if action.item() else -1
        rewards.append(float(place > 0))
    returns, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + 0.99 * total
        returns.insert(0, total)
    returns = torch.tensor(returns, device=device)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = torch.cat([-log * value for log, value in zip(log_probabilities, returns, strict=True)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f} {sum(rewards):.0f}")
