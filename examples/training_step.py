"""Training: forward and backward graphs run in engines, the optimizer's updates are seen."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fast = torch.compile(model, backend="vulkan", options={"min_block_size": 1})

x = torch.randn(64, 16)
target = x.sum(1, keepdim=True).sin()
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(fast(x), target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
assert losses[-1] < losses[0]
