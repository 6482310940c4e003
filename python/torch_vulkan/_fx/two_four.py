"""Which weights are 2:4 sparse - of each four neighbours two at most are not zero - is looked at
where their values are at hand; the compiler sees no values."""

import contextlib
from contextvars import ContextVar

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from .._torch import compat

DIMENSIONS = "torch_vulkan_two_four"
# Of the arguments of the graph that is being compiled, as Dynamo captured it.
_captured: ContextVar[tuple[fx.GraphModule, tuple] | None] = ContextVar("captured", default=None)


def dimensions(tensor) -> int:
    """Bit d is set if a matrix is so along dimension d (Value::two_four)."""
    plain = isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and (
        not isinstance(tensor, FakeTensor) and not tensor.is_meta)
    if not plain or tensor.dim() != 2 or tensor.numel() == 0 or (
            tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16)):
        return 0
    with compat.no_fake_mode(), torch.no_grad():
        return sum(1 << dim for dim in (0, 1) if _is_so(tensor.detach(), dim))


def _is_so(matrix: torch.Tensor, dim: int) -> bool:
    if matrix.shape[dim] % 4:
        return False
    fours = matrix.unflatten(dim, (-1, 4))
    return bool(((fours != 0).sum(dim + 1) <= 2).all())


@contextlib.contextmanager
def known_from(module: fx.GraphModule, example_inputs):
    """Within it `mark_argument` knows the arguments of what Dynamo captured."""
    token = _captured.set((module, tuple(example_inputs)))
    try:
        yield
    finally:
        _captured.reset(token)


def mark_argument(node: fx.Node) -> None:
    """Looks at the weight that a placeholder, which AOTAutograd has made of such an argument,
    stands for."""
    known = _captured.get()
    if known is None:
        return
    module, inputs = known
    described = node.meta.get("desc")
    at, target = getattr(described, "idx", None), getattr(described, "target", None)
    if isinstance(at, int) and at < len(inputs):
        mark(node, inputs[at])
    elif isinstance(target, str):
        mark(node, _attribute(module, target))


def mark(node: fx.Node, tensor) -> None:
    """Writes into the meta of a node that stands for a weight what the importer wants to know."""
    node.meta[DIMENSIONS] = dimensions(tensor)


def _attribute(module, target: str):
    for part in target.split("."):
        module = getattr(module, part, None)
    return module
