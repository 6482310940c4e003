"""A scripted module with a loop and a branch: engines inside, TorchScript around them."""

import tempfile
from pathlib import Path

import torch
from torch import nn

import torch_vulkan as tv


class Refine(nn.Module):
    """Improves an estimate step by step, and sharpens it where it is weak."""

    def __init__(self):
        super().__init__()
        self.step = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x, steps: int):
        for _ in range(steps):
            x = x + torch.tanh(self.step(x))
        if bool(x.abs().mean() < 0.5):
            x = torch.softmax(x * 4, -1)
        return x


torch.manual_seed(0)
model = torch.jit.script(Refine().eval())
x = torch.randn(8, 32)

print(tv.dry_run(model, [tv.Input(shape=(8, 32)), 3], min_block_size=2))

program = tv.compile(model, inputs=[x, 3], min_block_size=2)
print(f"{len(tv.engines(program))} engine(s)")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "refine.pt"
    tv.save(program, path)  # torch::jit::load reads it in C++, with libtorch_vulkan linked
    program = tv.load(path)

with torch.no_grad():
    for steps in (1, 3, 10):
        error = (program(x, steps) - model(x, steps)).abs().max().item()
        print(f"{steps} steps, largest difference {error:.1e}")
        assert error < 1e-4
