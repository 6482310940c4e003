"""Decompositions with the look at their numbers that PyTorch's operators take and its own
decompositions leave out (ATen/native/Loss.cpp, UnaryOps.cpp)."""

import functools

import torch
from torch._decomp import decomposition_table

aten = torch.ops.aten


def _checked(op, name: str, is_right, wanted: str):
    own, place = decomposition_table[op], [a.name for a in op._schema.arguments].index(name)
    default = op._schema.arguments[place].default_value

    @functools.wraps(own)
    def checked(*args, **kwargs):
        value = args[place] if len(args) > place else kwargs.get(name, default)
        if not is_right(value):
            raise RuntimeError(f"{op.name()} needs {name} {wanted}, got {value}")
        return own(*args, **kwargs)

    return checked


DECOMPOSITIONS = {
    aten.smooth_l1_loss.default: _checked(
        aten.smooth_l1_loss.default, "beta", lambda beta: beta >= 0, ">= 0"),
    aten.mvlgamma.default: _checked(aten.mvlgamma.default, "p", lambda p: p >= 1, ">= 1"),
}
