"""Build once, run anywhere, update weights: compile, save, load, refit."""

import tempfile
from pathlib import Path

import torch
from torch import nn

import torch_vulkan as tv


def network():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).eval()


model = network()
images = tv.Input(min_shape=(1, 3, 32, 32), opt_shape=(8, 3, 32, 32), max_shape=(16, 3, 32, 32))
program = tv.compile(model, inputs=[images], min_block_size=1)
for engine in tv.engines(program):
    print(engine.name, f"{len(engine.info()['layers'])} layers", engine.info()["memory"])

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "net.pt2"
    tv.save(program, path)
    print(f"{path.name}: {path.stat().st_size} bytes")
    program = tv.load(path)  # in another process, on another machine: nothing is built

x = torch.randn(5, 3, 32, 32)
print("largest difference from eager:", (program(x) - model(x)).abs().max().item())

newer = network()
tv.refit(program, newer)
print("and with other weights:       ", (program(x) - newer(x)).abs().max().item())

try:
    program(torch.randn(17, 3, 32, 32))
except ValueError as error:
    print("17 images:", error)
