"""The tensors that placeholders stand for while what Dynamo captured is being compiled: some facts
of weights are looked at there, for the compiler sees no values."""

import contextlib
from contextvars import ContextVar

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import PlainAOTInput
from torch._subclasses.fake_tensor import FakeTensor

# Of the arguments of the graph that is being compiled, as Dynamo captured it.
_captured: ContextVar[tuple[fx.GraphModule, tuple] | None] = ContextVar("captured", default=None)


@contextlib.contextmanager
def known_from(module: fx.GraphModule, example_inputs):
    """Within it `described` knows the arguments of what Dynamo captured."""
    token = _captured.set((module, tuple(example_inputs)))
    try:
        yield
    finally:
        _captured.reset(token)


def described(description):
    """The tensor that AOTAutograd describes so (`meta["desc"]` of a placeholder); None where that
    is not known."""
    known = _captured.get()
    if known is None:
        return None
    module, inputs = known
    target = getattr(description, "target", None)
    if isinstance(description, PlainAOTInput) and description.idx < len(inputs):
        return inputs[description.idx]
    return _attribute(module, target) if isinstance(target, str) else None


def has_values(tensor) -> bool:
    """Whether it is a plain, dense tensor with values to look at."""
    return isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and (
        not isinstance(tensor, FakeTensor) and not tensor.is_meta and tensor.numel() > 0)


def _attribute(module, target: str):
    for part in target.split("."):
        module = getattr(module, part, None)
    return module
