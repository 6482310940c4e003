"""tv.compile: a module compiled for given inputs, before its first call."""

import contextlib
from dataclasses import dataclass

import torch
from torch import nn

from . import engine_call
from .engine import Engine
from .settings import Settings


@dataclass
class Input:
    """A tensor that a model takes: `shape`, or a range of shapes of one rank.

    Raises ValueError where the shapes do not fit together.
    """

    shape: tuple[int, ...] | None = None
    min_shape: tuple[int, ...] | None = None
    opt_shape: tuple[int, ...] | None = None
    max_shape: tuple[int, ...] | None = None
    dtype: torch.dtype = torch.float32
    name: str | None = None

    def __post_init__(self):
        ranges = (self.min_shape, self.opt_shape, self.max_shape)
        if (self.shape is None) == all(r is None for r in ranges) or (
                self.shape is None and any(r is None for r in ranges)):
            raise ValueError("Input: got " + repr(self) + ", want either shape, or all of "
                             "min_shape, opt_shape and max_shape")
        if self.shape is None and not (
                len(set(map(len, ranges))) == 1
                and all(a <= b <= c for a, b, c in zip(*ranges, strict=True))):
            raise ValueError(f"Input: got {ranges}, want min_shape <= opt_shape <= max_shape")

    def example(self) -> torch.Tensor:
        """A tensor of the shape to optimise for, its dynamic dimensions marked."""
        shape = self.shape if self.shape is not None else self.opt_shape
        tensor = torch.zeros(shape, dtype=self.dtype)
        if self.shape is None:
            for dim, (low, high) in enumerate(zip(self.min_shape, self.max_shape, strict=True)):
                if low != high:
                    torch._dynamo.mark_dynamic(tensor, dim, min=low, max=high)
        return tensor


class Program(nn.Module):
    """A compiled module: engines and what PyTorch runs. Weights stay the module's own."""

    def __init__(self, module: nn.Module, settings: dict):
        super().__init__()
        self.module = module
        self._calls = []
        self._compiled = torch.compile(module, backend="vulkan", options=settings or None)

    def forward(self, *args, **kwargs):
        with torch.no_grad(), engine_call.collected(self._calls):
            return self._compiled(*args, **kwargs)

    def engines(self) -> list[Engine]:
        """Stand-alone copies of the engines, without weights."""
        return [Engine(call.vke(), call.engine.device() or None) for call in self._calls]


def compile(module: nn.Module, inputs, **settings) -> Program:  # noqa: A001
    """Compiles `module` for `inputs` (tensors or `Input`s) and returns a callable module.

    Raises ValueError for a bad setting, RuntimeError where there is no Vulkan device.
    """
    if not isinstance(module, nn.Module):
        raise ValueError(f"tv.compile: got {type(module).__name__}, want a torch.nn.Module")
    Settings.from_options(settings)
    examples = [i.example() if isinstance(i, Input) else i for i in inputs]
    program = Program(module, settings)
    with contextlib.suppress(torch._dynamo.exc.ResetRequired):
        program(*examples)
    return program


def engines(program: Program) -> list[Engine]:
    """The engines of a compiled program."""
    return program.engines()
