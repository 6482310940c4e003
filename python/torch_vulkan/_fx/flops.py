"""Floating-point operations of captured nodes whose operators no registration counts
(csrc/report/flops.h), complex ones and those that frontends refuse among them, as
torch.utils.flop_counter has them: a multiplication and an addition count two."""

import functools

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils import flop_counter

from .._torch import compat
from .._torch.ranges import Ranges

aten = torch.ops.aten


def _attention(query, key, value, *args, **kwargs):
    return flop_counter.sdpa_flop_count(query.shape, key.shape, value.shape)


def _attention_backward(grad_out, query, key, value, *args, **kwargs):
    return flop_counter.sdpa_backward_flop_count(grad_out.shape, query.shape, key.shape,
                                                 value.shape)


def _linear(x, weight, *args, **kwargs):
    return 2 * x.numel() * weight.shape[0]


def _vector(matrix, vector, **kwargs):
    return 2 * matrix.numel()


@functools.cache
def _own_rules() -> dict:
    """Operators that torch's table does not have."""
    rules = {"_scaled_dot_product_flash_attention_for_cpu": _attention,
             "scaled_dot_product_attention": _attention,
             "_scaled_dot_product_fused_attention_overrideable": _attention,
             "_scaled_dot_product_attention_math_for_mps": _attention,
             "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
             "linear": _linear, "mv": _vector, "dot": _vector}
    known = {getattr(aten, name): rule for name, rule in rules.items() if hasattr(aten, name)}
    return known | {torch.ops.torch_vulkan.scaled_dot_product_attention: _attention}


def flops_of(node: fx.Node) -> int:
    """0 for what is none of these; symbolic sizes count with the size to expect."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return 0
    packet = node.target.overloadpacket
    rule = _own_rules().get(packet)
    known = flop_counter.flop_registry.get(packet)
    if rule is None and known is None:
        return 0
    args, kwargs = pytree.tree_map(_plain, (node.args, node.kwargs))
    if rule is not None:
        return int(rule(*args, **kwargs))
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
