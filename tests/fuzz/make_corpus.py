"""Writes the seeds of the fuzz target: a few engines of different kinds, some with weights.

Run it after a change of the .vke format: python tests/fuzz/make_corpus.py
"""

from pathlib import Path

import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._fx import engine_call

CORPUS = Path(__file__).parent / "corpus"


def engine_of(function, *inputs, dynamic=None) -> tuple[tv.Engine, dict]:
    """The engine of a function, and its weights by name."""
    torch._dynamo.reset()
    calls = []
    with engine_call.collected(calls), torch.no_grad():
        torch.compile(function, backend="vulkan", dynamic=dynamic, options={
            "require_full_compilation": True, "cache_built_engines": False,
            "reuse_cached_engines": False})(*inputs)
    engine = tv.Engine(calls[0].vke())
    weights = {w["name"]: torch.ones(w["shape"]) for w in engine.info()["weights"]}
    return engine, weights


def main():
    torch.manual_seed(0)
    cases = {
        "pointwise": (lambda x: torch.relu(x) * 2, [torch.randn(3, 5)], None),
        "dynamic": (lambda x: torch.tanh(x + 1), [torch.randn(3, 5)], True),
        "two_outputs": (lambda x, y: (x + y, x.sum(1)), [torch.randn(3, 5)] * 2, None),
        "linear": (nn.Linear(5, 3).requires_grad_(False), [torch.randn(4, 5)], None),
        "convolution": (nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)).eval()
                        .requires_grad_(False), [torch.randn(1, 2, 6, 6)], None),
    }
    CORPUS.mkdir(exist_ok=True)
    for name, (function, inputs, dynamic) in cases.items():
        engine, weights = engine_of(function, *inputs, dynamic=dynamic)
        engine.save(CORPUS / f"{name}.vke")
        if name == "linear":  # one seed with weights: they are padded to pages
            engine.set_weights(weights)
            engine.save(CORPUS / f"{name}_weights.vke")
    for path in sorted(CORPUS.iterdir()):
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
