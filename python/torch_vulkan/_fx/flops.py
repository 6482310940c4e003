"""Floating-point operations of captured nodes whose operators no registration counts
(csrc/report/flops.h), as torch.utils.flop_counter has them."""

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils import flop_counter

from .._torch import compat
from .._torch.ranges import Ranges


def flops_of(node: fx.Node) -> int:
    """0 for what is none of these; symbolic sizes count with the size to expect."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return 0
    known = flop_counter.flop_registry.get(node.target.overloadpacket)
    if known is None:
        return 0
    args, kwargs = pytree.tree_map(_plain, (node.args, node.kwargs))
    return int(known(*args, **kwargs, out_val=pytree.tree_map(_plain, _value_of(node))))


def _value_of(node: fx.Node):
    """What a node makes; of one that Dynamo captured, by its own name for it."""
    return node.meta.get("val", node.meta.get("example_value"))


def _plain(value):
    """An argument with numbers for symbols and tensors without data."""
    if isinstance(value, fx.Node):
        value = _value_of(value)
        return pytree.tree_map(_plain, value)
    if isinstance(value, torch.Tensor):
        with compat.no_fake_mode():
            return torch.empty([_size(dim) for dim in value.shape], dtype=value.dtype,
                               device="meta")
    return _size(value) if isinstance(value, torch.SymInt) else value


def _size(dim) -> int:
    if not isinstance(dim, torch.SymInt):
        return int(dim)
    e, ranges = dim.node.expr, Ranges(dim.node.shape_env)
    return int(e.subs({symbol: ranges.usual(symbol) or 1 for symbol in e.free_symbols}))
