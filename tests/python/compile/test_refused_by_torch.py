"""What PyTorch refuses for the types of a call, an engine does not compute."""

import pytest
import torch

from torch_vulkan import compilations

from helpers import assert_same, vulkan

INTS, TRUTH = torch.arange(1, 5, dtype=torch.int32), torch.tensor([True, False])
FLOATS = torch.randn(4)

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
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name):
    function, value = REFUSED[name]
    with pytest.raises(RuntimeError):
        function(value.clone())
    with pytest.raises(RuntimeError):
        vulkan(function)(value.clone())


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


LOSS = torch.nn.functional
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
