"""Small networks that learn made data in seconds, for what accuracy is left of them.

The answers are counts or depend on nested brackets, so that a layer whose results are too large or
too small changes them, which a choice between a few patterns hardly shows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from workloads.small_networks import Block


@dataclass(frozen=True)
class Task:
    """What a network learns.

    Attributes:
        make: gives the network, with random weights.
        data: (count, seed) -> inputs and the class of each, of each position in a text.
        steps: of training, with 64 inputs each.
    """

    make: Callable[[], nn.Module]
    data: Callable[[int, int], tuple[torch.Tensor, torch.Tensor]]
    steps: int


def trained(task: Task) -> nn.Module:
    """The network after training, in eval mode; the same one at each call."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps are too small for more
    torch.manual_seed(0)
    model = task.make()
    optimizer = torch.optim.AdamW(model.parameters(), 4e-3, weight_decay=0.01)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, task.steps)
    try:
        for step in range(task.steps):
            x, label = task.data(64, 1000 + step)
            optimizer.zero_grad()
            functional.cross_entropy(model(x).flatten(0, -2), label.flatten()).backward()
            optimizer.step()
            rates.step()
    finally:
        torch.set_num_threads(threads)
    return model.eval()


def blobs(count: int, seed: int):
    """Images of 0 to 5 blobs in noise, and how many there are."""
    draw = torch.Generator().manual_seed(seed)
    label = torch.randint(6, (count,), generator=draw)
    place = torch.arange(16.0)
    y, x = torch.rand(2, count, 5, 1, generator=draw) * 12 + 2
    rows, columns = (torch.exp(-(place - at).square() / 2) for at in (y, x))
    there = (torch.arange(5) < label[:, None]).float()
    images = torch.einsum("nk,nkh,nkw->nhw", there, rows, columns)
    return (images + torch.randn(images.shape, generator=draw) * 0.2)[:, None], label


class Residual(nn.Module):
    """Two convolutions beside the identity."""

    def __init__(self, channels):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels))

    def forward(self, x):
        return (x + self.layers(x)).relu()


def convolutions():
    """A residual network with a depthwise layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), Residual(16),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.ReLU(), nn.Conv2d(32, 32, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 6))


def digits(count: int, seed: int):
    """One of four marks and 15 digits below 4, and how many of these are the mark's, up to 7."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(4, (count, 16), generator=draw)
    label = (x[:, 1:] == x[:, :1]).sum(1).clamp(max=7)
    x[:, 0] += 4
    return x, label


class Transformer(nn.Module):
    """Blocks over tokens; `causal`: one class for each position, else one for the whole."""

    def __init__(self, symbols, classes, length, width, causal=False):
        super().__init__()
        self.embedding, self.causal = nn.Embedding(symbols, width), causal
        self.positions = nn.Parameter(torch.randn(length, width) * 0.1)
        self.blocks = nn.ModuleList([Block(width, causal), Block(width, causal)])
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(x if self.causal else x.mean(1))


KINDS, LETTERS, LENGTH = 4, 8, 32


def brackets(count: int, seed: int):
    """Texts of nested brackets of four kinds, with letters that depend on the innermost one, and
    the symbol that follows each."""
    draw = torch.Generator().manual_seed(seed)
    chance, kind = torch.rand(2, LENGTH + 1, count, generator=draw)
    letter = torch.rand(LENGTH + 1, count, generator=draw)
    stack = torch.zeros(count, 8, dtype=torch.long)  # 0: outside, else 1 + kind
    depth, every = torch.zeros(count, dtype=torch.long), torch.arange(count)
    text = []
    for i in range(LENGTH + 1):
        inside = stack[every, depth]
        opens = (chance[i] < 0.25) & (depth < 5)
        closes = ~opens & (chance[i] < 0.5) & (depth > 0)
        new = (kind[i] * KINDS).long()
        # Half of the letters are the bracket's own.
        written = 2 * KINDS + (inside * 2 + (letter[i] * 2.4).long()) % LETTERS
        text.append(torch.where(opens, new, torch.where(closes, KINDS + inside - 1, written)))
        depth = depth + opens.long() - closes.long()
        stack[every[opens], depth[opens]] = 1 + new[opens]
    text = torch.stack(text, 1)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def top_1(logits: torch.Tensor, label: torch.Tensor) -> float:
    """Share of the classes that are found."""
    return (logits.argmax(-1) == label).float().mean().item()


def perplexity(logits: torch.Tensor, label: torch.Tensor) -> float:
    """e to the mean cross entropy."""
    return functional.cross_entropy(logits.flatten(0, -2), label.flatten()).exp().item()


IMAGES = Task(convolutions, blobs, 150)
SEQUENCES = Task(lambda: Transformer(8, 8, 16, 32), digits, 300)
TEXTS = Task(lambda: Transformer(2 * KINDS + LETTERS, 2 * KINDS + LETTERS, LENGTH, 64, True),
             brackets, 280)
