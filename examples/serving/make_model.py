"""Writes the models of the example repository: a small network for batches of 1 to 16 images, and a
small random decoder that makes text."""

import sys
from pathlib import Path

import torch
from torch import nn

import torch_vulkan as tv

sys.path.append(str(Path(__file__).parents[1]))
from save_decoder import small  # noqa: E402

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                      nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).eval()

images = tv.Input(min_shape=(1, 3, 32, 32), opt_shape=(16, 3, 32, 32), max_shape=(16, 3, 32, 32),
                  name="image")
program = tv.compile(model, inputs=[images], min_block_size=1, require_full_compilation=True)
(engine,) = tv.engines(program)

repository = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "repository")
path = repository / "images" / "1" / "model.vke"
path.parent.mkdir(parents=True, exist_ok=True)
engine.save(path)
print(path)

decoder, tokenizer = small()
folder = repository / "story" / "1"
tv.save_decoder(decoder, folder, max_length=128, tokenizer=tokenizer)
print(folder)
