"""What PyTorch refuses for the types of a call, an engine does not compute."""

import pytest
import torch

from torch_vulkan import compilations

from helpers import assert_same, vulkan

INTS, TRUTH = torch.arange(1, 5, dtype=torch.int32), torch.tensor([True, False])
FLOATS = torch.randn(4)
LOSS = torch.nn.functional

REFUSED = {
    "sub of a bool": (lambda v: v - True, FLOATS),
    "sub of a bool in place": (lambda v: (v * 2).sub_(True), INTS),
    "sub of bools as a tensor": (lambda v: FLOATS[:2] - v, TRUTH),
    "rsub of a bool": (lambda v: True - v, INTS),
    "rsub of bools": (lambda v: 1 - v, TRUTH),
    "alpha for bools": (lambda v: torch.sub(v, 1, alpha=2), TRUTH),
    "bool alpha of integers": (lambda v: torch.add(v, v, alpha=True), INTS),
    "bool alpha of floats": (lambda v: torch.sub(v, v, alpha=True), FLOATS),
    "negative power of integers": (lambda v: v ** -1, INTS),
    "integers divided by 0": (lambda v: v // 0, INTS),
    "heaviside of two types": (lambda v: torch.heaviside(v, v.long()), INTS),
    "argmax of bools": (lambda v: v.argmax(), TRUTH),
    "bits of floats": (lambda v: v & 1, FLOATS),
    "smooth_l1_loss below 0": (lambda v: LOSS.smooth_l1_loss(v, v + 1, beta=-1.0) + 1, FLOATS),
    "mvlgamma of 0": (lambda v: torch.mvlgamma(v.abs() + 9, 0) + 1, FLOATS),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name):
    function, value = REFUSED[name]
    with pytest.raises(RuntimeError):
        function(value.clone())
    with pytest.raises(RuntimeError):
        vulkan(function)(value.clone())


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [
    lambda v, s: v ** s, lambda v, s: v.clone().pow_(s) + 1, lambda v, s: v.pow(v.shape[0] - 6 + s),
    lambda v, s: torch.float_power(v, s)],
    ids=["pow", "in place", "a size less a number", "of floats"])
def test_an_exponent_that_becomes_negative(function, dynamic):
    """PyTorch is asked of a number of each sign that a symbol may have."""
    fast = vulkan(function, dynamic)
    for exponent in (3, 2, -1, 0, -2):
        try:
            want = function(INTS, exponent)
        except RuntimeError:
            with pytest.raises(RuntimeError, match="negative integer powers"):
                fast(INTS, exponent)
        else:
            assert_same(fast(INTS, exponent), want)


def test_a_size_as_an_exponent_is_computed_in_an_engine():
    fast = vulkan(lambda v: v ** v.shape[0] + 1, True)
    compilations.clear()
    for n in (2, 3, 5):
        assert_same(fast(torch.arange(n)), torch.arange(n) ** n + 1)
    assert all(record.coverage == 1 for record in compilations.compilations())


def test_a_result_of_another_type_than_was_traced():
    """Fake tensors say int64 for a bool to the power of a bool."""
    found = vulkan(lambda v: v ** True)(TRUTH)
    assert found.dtype == torch.bool
    assert_same(found, TRUTH ** True)


def test_the_reason_is_pytorch_s():
    compilations.clear()
    with pytest.raises(RuntimeError, match="Subtraction"):
        vulkan(lambda v: torch.relu(v) * 2 - True)(FLOATS)
    (node,) = [n for record in compilations.compilations() for n in record.native if "sub" in n.op]
    assert node.reason.startswith("PyTorch refuses it: Subtraction")

BEYOND, PLACES = torch.tensor([0, 100, 1]), torch.tensor([[[[0, 1], [2, 900]]]])
OUT_OF_RANGE = {
    "cross_entropy": lambda: LOSS.cross_entropy(torch.ones(3, 4), BEYOND),
    "smoothed": lambda: LOSS.cross_entropy(torch.ones(3, 4), BEYOND, label_smoothing=0.1),
    "nll_loss": lambda: LOSS.nll_loss(torch.ones(3, 4), BEYOND, reduction="none"),
    "nll_loss2d": lambda: LOSS.nll_loss(torch.ones(3, 4, 1, 1), BEYOND.view(3, 1, 1)),
    "multi_margin_loss": lambda: LOSS.multi_margin_loss(torch.ones(3, 4), BEYOND),
    "max_unpool1d": lambda: LOSS.max_unpool1d(torch.ones(1, 2, 2), PLACES[0], 2),
    "max_unpool2d": lambda: LOSS.max_unpool2d(torch.ones(1, 1, 2, 2), PLACES, 2),
    "max_unpool3d": lambda: LOSS.max_unpool3d(torch.ones(1, 1, 1, 2, 2), PLACES[None], 2),
    "gather": lambda: torch.gather(torch.ones(3, 4), 1, BEYOND[:, None]),
    "index_select": lambda: torch.index_select(torch.ones(3, 4), 1, BEYOND),
    "take": lambda: torch.take(torch.ones(3, 4), BEYOND),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_index_out_of_range_raises_what_eager_raises(name):
    with pytest.raises((IndexError, RuntimeError)) as eager:
        OUT_OF_RANGE[name]()
    with pytest.raises(eager.type) as compiled:
        vulkan(OUT_OF_RANGE[name])()
    assert compiled.type is eager.type
    assert compilations.compilations()[-1].engines
