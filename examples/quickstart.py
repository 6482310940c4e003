"""The shortest way in: compile a small model, compare with eager."""

import torch
from torch import nn

import torch_vulkan as tv

print("devices:", ", ".join(device.name for device in tv.devices()))

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
).eval()
x = torch.randn(2, 3, 32, 32)

fast = torch.compile(model, backend="vulkan")
with torch.no_grad():
    y = fast(x)
    torch.testing.assert_close(y, model(x))
print("same as eager:", tuple(y.shape))
