"""What registrations say of operators that move elements (Converter::moves), against PyTorch."""

import pytest
import torch

from torch_vulkan._native import C

SELF = torch.arange(2 * 1 * 6, dtype=torch.float32).reshape(2, 1, 6)
LIST = [SELF, SELF + 100]
# The arguments of each operator besides its tensors, or (tensors, arguments).
CALLS = {
    "aten::_reshape_alias": ([6, 2], [2, 1]), "aten::_to_copy": (), "aten::_unsafe_view": ([6, 2],),
    "aten::alias": (), "aten::as_strided": ([3, 2], [1, 3], 1),
    "aten::as_strided_copy": ([3, 2], [1, 3], 1), "aten::broadcast_to": ([3, 2, 4, 6],),
    "aten::cat": (2,), "aten::chunk": (3, 2), "aten::clone": (), "aten::concat": (0,),
    "aten::contiguous": (), "aten::detach": (), "aten::diagonal": (1, 0, 2),
    "aten::diagonal_copy": (1, 0, 2), "aten::expand": ([3, 2, 4, 6],),
    "aten::expand_as": (torch.zeros(3, 2, 4, 6),), "aten::expand_copy": ([3, 2, 4, 6],),
    "aten::flatten.using_ints": (0, 1), "aten::flip": ([0, 2],), "aten::lift_fresh": (),
    "aten::lift_fresh_copy": (), "aten::mT": (), "aten::narrow": (2, 1, 3),
    "aten::narrow_copy": (2, 1, 3), "aten::numpy_T": (), "aten::permute": ([2, 0, 1],),
    "aten::permute_copy": ([2, 0, 1],), "aten::ravel": (), "aten::reflection_pad1d": ([2, 1],),
    "aten::reflection_pad2d": ([2, 1, 0, 0],), "aten::repeat": ([2, 1, 3, 1],),
    "aten::replication_pad1d": ([2, 1],), "aten::replication_pad2d": ([2, 1, 1, 0],),
    "aten::replication_pad3d": ([2, 1, 1, 0, 0, 1],), "aten::reshape": ([6, 2],),
    "aten::reshape_as": (torch.zeros(6, 2),), "aten::roll": ([1, 2], [0, 2]),
    "aten::select.int": (2, 4), "aten::select_copy.int": (2, 4),
    "aten::slice.Tensor": (2, 1, 6, 2), "aten::slice_copy.Tensor": (2, 1, 6, 2),
    "aten::split.Tensor": (4, 2), "aten::split.sizes": ([2, 4], 2),
    "aten::split_with_sizes": ([2, 4], 2), "aten::squeeze": (), "aten::squeeze.dim": (1,),
    "aten::squeeze.dims": ([1],), "aten::stack": (1,), "aten::swapaxes": (0, 2),
    "aten::transpose.int": (0, -1), "aten::unbind.int": (2,), "aten::unbind_copy.int": (2,),
    "aten::unflatten.int": (2, [2, 3]), "aten::unfold": (2, 3, 2), "aten::unfold_copy": (2, 3, 2),
    "aten::unsqueeze": (1,), "aten::view": ([6, 2],), "aten::view_as": (torch.zeros(6, 2),),
    "aten::view_copy": ([6, 2],), "prims::convert_element_type": (torch.float64,),
    "aten::constant_pad_nd": ([1, 0, 0, 2], -7.0)}
CALLS |= {f"aten::max_pool{d}{rest}": ([1] * (d[0] > "1") + [3], [1] * (d[0] > "1") + [2])
          for d in ("1d", "2d") for rest in ("", "_with_indices")}
CALLS |= {"aten::max_pool3d_with_indices": ([1, 1, 3], [1, 1, 2]),
          "aten::adaptive_max_pool2d": ([1, 2],), "aten::adaptive_max_pool3d": ([1, 1, 2],)}
CALLS |= {f"aten::{kind}{d}d{form}": ([1] * (d - 1) + [9], *[None] * (d if not form else 1))
          for kind in ("upsample_nearest", "_upsample_nearest_exact") for d in (1, 2, 3)
          for form in ("", ".vec")}
# Means are computed.
OPERATORS = sorted(op["op"] for op in C.supported_ops() if C.moves(op["op"]) not in ("", "means"))


def called(op, first=torch.Tensor.clone):
    """The operator's tensors, and its results of what `first` makes of them."""
    library, name = op.split("::")
    name, _, overload = name.partition(".")
    function = getattr(getattr(getattr(torch.ops, library), name), overload or "default")
    given = SELF
    if op == "aten::t":
        given = SELF[:, 0]
    elif (op in ("aten::replication_pad3d", "aten::reflection_pad2d")
          or "nearest2d" in op or "exact2d" in op or "pool3d" in op):
        given = SELF[None]
    elif "nearest3d" in op or "exact3d" in op:
        given = SELF[None, None]
    elif C.moves(op) in ("joins", "stacks"):
        given = LIST
    if torch.is_tensor(given):
        given = first(given)
    result = function(given, *CALLS.get(op, ()))
    return given, result if isinstance(result, (list, tuple)) else [result]


def flat(tensors):
    return torch.cat([t.double().flatten() for t in tensors])


def is_subsequence(some, whole):
    left = iter(whole)
    return all(any(a == b for b in left) for a in some)


@pytest.mark.parametrize("op", [op for op in OPERATORS if not op.startswith("tv::")])
def test_operators_move_as_they_say(op):
    x, results = called(op)
    way, y = C.moves(op), results[0]
    if way == "largest":
        results = results[:1]  # the others are places
    before, after = flat(x if isinstance(x, list) else [x]), flat(results)
    assert way == "parts" or len(results) == 1
    padding = {-7.0} if way == "pads" else set()
    assert set(after.tolist()) <= set(before.tolist()) | padding, "nothing is computed"
    if way in ("copies", "casts"):
        assert y.shape == x.shape and torch.equal(after, before)
        assert way == "casts" or y.dtype == x.dtype
    elif way == "reshapes":
        assert torch.equal(after, before)
    elif way == "permutes":
        assert any(torch.equal(x.permute(order), y)
                   for order in torch.cartesian_prod(*[torch.arange(x.dim())] * x.dim()).tolist()
                   if len(set(order)) == x.dim())
    elif way == "spreads":
        assert set(after.tolist()) == set(before.tolist())
    elif way in ("cuts", "parts"):
        assert all(is_subsequence(flat([r]).tolist(), before.tolist()) for r in results)
    elif way in ("joins", "stacks"):
        assert sorted(after.tolist()) == sorted(before.tolist())
        assert y.dim() == x[0].dim() + (way == "stacks")
    elif way == "pads":
        assert is_subsequence(before.tolist(), after.tolist()) and -7 in after
    elif way == "largest":
        # What grows with the elements, which are not negative, is applied before or behind.
        assert torch.equal(flat(called(op, torch.square)[1][:1]), after.square())
    else:
        assert way == "picks"


def test_operators_that_compute_move_nothing():
    for op in ("aten::relu", "aten::add.Tensor", "aten::mm", "t::nobody"):
        assert C.moves(op) == ""


def test_what_takes_codes():
    """What moves elements as they are, to one result; a cast, a sum and a number beside them make
    others of codes."""
    taking = {op["op"] for op in C.supported_ops() if C.takes_codes(op["op"])}
    assert {"aten::view", "aten::cat", "aten::flip", "aten::_scaled_mm"} <= taking
    assert taking.isdisjoint({"aten::_to_copy", "aten::add.Tensor", "aten::split.Tensor",
                              "aten::constant_pad_nd", "aten::max_pool2d", "aten::view.dtype"})
    assert C.code_args("aten::_scaled_mm") == ["self", "mat2"]
    assert not C.takes_codes("no::operator") and C.code_args("no::operator") == []
