"""Indices that name nothing and integers divided by 0: kernels notice, and PyTorch says what it says."""

import re

import pytest
import torch
import torch.nn.functional as F

import torch_vulkan as tv
from torch_vulkan._fx.engine_call import REFUSED, EngineCall

from marks import slow_but
from parity import OPTIONS, compare, compiled_operator, tensor

aten = torch.ops.aten
NAMES = re.compile(r"(.*_)?(index|indices|offsets|lengths|sorter|pivots)")


def ints(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


def bag(*args, op=aten._embedding_bag.default):
    return op, (tensor(5, 4), *args)


def _cases():
    x, row, bad = tensor(5, 4), tensor(1, 4), ints([9, 0, 1, 2])
    lu, b = torch.linalg.lu_factor(tensor(3, 3))[0], tensor(3, 1)
    place, pivots = (ints(1, 7),), ints(1, 3, 9, dtype=torch.int32)
    return {
        "gather": (aten.gather.default, (x, 0, bad)),
        "index": (aten.index.Tensor, (x, [place[0]])),
        "index_put": (aten.index_put.default, (x, place, tensor(4))),
        "index_select": (aten.index_select.default, (x, 0, ints(1, -1))),
        "embedding": (aten.embedding.default, (x, ints(1, 2**40))),
        "embedding_renorm": (aten.embedding_renorm.default, (x, place[0], 1.0, 2.0)),
        "scatter.src": (aten.scatter.src, (x, 0, bad, row)),
        "scatter.value": (aten.scatter.value, (x, 0, -bad, 1.5)),
        "scatter_add": (aten.scatter_add.default, (x, 0, bad, row)),
        "scatter_reduce.two": (aten.scatter_reduce.two, (x, 0, bad, row, "amax")),
        "index_add": (aten.index_add.default, (x, 0, ints(9), row)),
        "index_add negative": (aten.index_add.default, (x, 0, ints(-1), row), {"alpha": 2.0}),
        "index_copy": (aten.index_copy.default, (x, 0, ints(9), row)),
        "index_copy negative": (aten.index_copy.default, (x, 1, ints(0, -1), tensor(5, 2))),
        "index_reduce": (aten.index_reduce.default, (x, 0, ints(9), row, "amin")),
        "put": (aten.put.default, (x, ints(99), tensor(1))),
        "_embedding_bag": bag(place[0], ints(0)),
        "_embedding_bag_forward_only": bag(place[0], ints(0), op=aten._embedding_bag_forward_only.default),
        "_embedding_bag without padding": bag(ints(1, -1), ints(0)),
        "_embedding_bag of maxima": bag(ints(1, -1), ints(0), False, 2),
        "offsets": bag(ints(1), ints(0, 5)),
        "offsets from 1": bag(ints(1, 2), ints(1)),
        "searchsorted": (aten.searchsorted.Tensor, (torch.arange(4.0), tensor(2)),
                         {"sorter": ints(0, 1, 2, 9)}),
        "lu_unpack": (aten.lu_unpack.default, (lu, pivots)),
        "linalg_lu_solve": (aten.linalg_lu_solve.default, (lu, pivots, b)),
        "segment_reduce": (aten.segment_reduce.default, (x, "sum"), {"lengths": ints(2, 9)}),
        "masked_scatter": (aten.masked_scatter.default, (x, x > -100, tensor(3))),
        "floor_divide": (aten.floor_divide.default, (ints(7, 8), ints(1, 0))),
        "div.Tensor_mode": (aten.div.Tensor_mode, (ints(7, 8), ints(1, 0)), {"rounding_mode": "trunc"}),
        "fmod.Tensor": (aten.fmod.Tensor, (ints(7, 8, dtype=torch.uint8), ints(1, 0, dtype=torch.uint8))),
        "remainder.Tensor": (aten.remainder.Tensor, (ints(7, 8, dtype=torch.int32), ints(0, 1, dtype=torch.int32))),
        "remainder.Scalar_Tensor": (aten.remainder.Scalar_Tensor, (7, ints(1, 0))),
    }


CASES = _cases()
# Operators with such an argument that have no case here, and why.
UNCHECKED = {
    # PyTorch looks, but says with the name that it need not.
    "_unsafe_index", "_unsafe_index_put",
    # PyTorch does not look, either: what the forward found.
    "embedding_dense_backward", "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward",
    "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward", "_embedding_bag_backward",
    "_embedding_bag_dense_backward", "_embedding_bag_per_sample_weights_backward", "_segment_reduce_backward",
}


def eager_error(op, args, kwargs):
    with pytest.raises((IndexError, RuntimeError)) as raised:
        op(*args, **kwargs)
    return raised.type


def run(name, **options):
    op, args, kwargs = (*CASES[name], {})[:3]
    compiled, inputs = compiled_operator(op, *args, options=options, **kwargs)
    return compiled, inputs, (op, args, kwargs)


def test_every_operator_with_indices_has_a_case():
    found = set()
    for info in tv.supported_ops():
        space, _, rest = info["op"].partition("::")
        base, _, variant = rest.partition(".")
        if space != "aten" or info["kind"] == "view":
            continue
        packet = getattr(torch.ops.aten, base, None)
        if packet is None:
            continue  # an operator of a later PyTorch
        schema = getattr(packet, variant or "default")._schema
        if any("Tensor" in str(a.type) and NAMES.fullmatch(a.name) for a in schema.arguments):
            found.add(base)
    cased = {name.partition(".")[0] for name in CASES}
    assert found - cased - UNCHECKED == set(), "want a case in CASES"
    assert UNCHECKED <= found


@pytest.mark.parametrize("name", slow_but(
    ("gather", "index_put", "index_add negative", "embedding", "_embedding_bag without padding", "scatter.src", "_embedding_bag", "remainder.Tensor"), CASES))
def test_kernels_notice(name, monkeypatch):
    """The check itself, and what PyTorch then raises."""
    compiled, inputs, (op, args, kwargs) = run(name)
    expected = eager_error(op, args, kwargs)
    with pytest.raises(expected):
        compiled(list(inputs))
    monkeypatch.setattr(EngineCall, "refuse_natively", lambda self, error, args: (_ for _ in ()).throw(error))
    index = "divide" not in name and "div" not in name and "mod" not in name and "remainder" not in name
    with pytest.raises(IndexError if index else RuntimeError, match=re.escape(REFUSED)):
        compiled(list(inputs))


@pytest.mark.parametrize("name", ["gather", "remainder.Tensor"])
def test_without_the_check(name):
    """A result of some kind, and nothing outside of the tensors is touched."""
    compiled, inputs, _ = run(name, check_indices=False)
    assert len(compiled(list(inputs))) == 1


def test_the_next_call_is_right():
    op, x = aten.gather.default, tensor(5, 4)
    bad, good = ints([9, 0, 1, 2]), ints([4, 0, 1, 2])
    compiled, _ = compiled_operator(op, x, 0, good)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of bounds"):
            compiled([x, bad])
        compare(compiled([x, good]), [op(x, 0, good)])


def test_a_target_out_of_range():
    fast = torch.compile(F.cross_entropy, backend="vulkan", options=OPTIONS)
    x, good = tensor(5, 4), ints(0, 1, 2, 3, -100)
    compare([fast(x, good)], [F.cross_entropy(x, good)])
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        fast(x, ints(0, 1, 2, 100, 1))


@pytest.mark.parametrize("bad", [4, -1])
@pytest.mark.parametrize("function, shape", [
    (F.max_unpool1d, (2, 1, 2)), (F.max_unpool2d, (2, 1, 1, 1)), (F.max_unpool3d, (2, 1, 1, 1, 1))])
def test_a_place_to_unpool_to_out_of_range(function, shape, bad):
    x = tensor(*shape)
    good = torch.zeros(shape, dtype=torch.int64)
    good.view(-1)[-1] = 3
    fast = torch.compile(lambda x, i: function(x, i, 2), backend="vulkan", options=OPTIONS)
    compare([fast(x, good)], [function(x, good, 2)])
    wrong = torch.where(good == 3, bad * 2 if bad > 0 else bad, good)
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        fast(x, wrong)


def test_a_program_names_the_operator():
    """Ahead of time there is no native form to ask."""
    class Lookup(torch.nn.Module):
        def forward(self, table, i):
            return table[i] * 2

    x, i = tensor(5, 4), ints(1, 2, 3)
    program = tv.compile(Lookup(), (x, i), min_block_size=1)
    compare([program(x, i)], [x[i] * 2])
    with pytest.raises(IndexError, match=r"index out of range in .*aten::index"):
        program(x, ints(1, 2, 9))
    compare([program(x, i)], [x[i] * 2])


def test_division_by_the_number_0_is_pytorchs():
    fast = torch.compile(lambda x: x.relu() // 0, backend="vulkan", options={"min_block_size": 1})
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fast(ints(1, 2))


def test_divisors_in_the_padding_of_a_kernel_are_nobodys():
    """Fused around products and reductions, on sizes that divide no tile."""
    def function(x, n, w):
        return (x // n).float() @ w, (x % n).sum(1), (x.float() @ w).int() // n[:, :5]

    args = (tensor(7, 13, dtype=torch.int32, low=-50, high=50),
            tensor(7, 13, dtype=torch.int32, low=1, high=9), tensor(13, 5))
    fast = torch.compile(function, backend="vulkan", options={**OPTIONS, "pass_through_build_failures": True})
    with torch.no_grad():
        compare(fast(*args), function(*args), 13)
