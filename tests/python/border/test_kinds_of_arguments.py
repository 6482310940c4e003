"""Arguments that are not plain tensors: docs/design/0016."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import torch_vulkan as tv
from torch_vulkan import compilations

OPTIONS = {"min_block_size": 1}


def test_a_subclass_that_is_traced_through():
    """Its plain tensors are computed by engines; the result is of the subclass."""
    def f(x, y):
        return torch.relu(x * 2 + y)

    x = TwoTensor(torch.randn(3, 5), torch.randn(3, 5))
    y = TwoTensor(torch.randn(3, 5), torch.randn(3, 5))
    compilations.clear()
    got = torch.compile(f, backend="vulkan", options=OPTIONS)(x, y)
    assert isinstance(got, TwoTensor)
    torch.testing.assert_close(got.a, f(x.a, y.a))
    torch.testing.assert_close(got.b, f(x.b, y.b))
    assert sum(len(c.engines) for c in compilations.compilations()) == 1


def test_a_subclass_that_is_written():
    """The caller's own, in its plain tensors; another result that shares them does so still."""
    def f(x, y):
        x.mul_(3).add_(y)
        return x, x[1:], torch.relu(x)

    def made():
        torch.manual_seed(0)
        return [TwoTensor(torch.randn(3, 5), torch.randn(3, 5)) for _ in range(2)]

    theirs, ours = made(), made()
    want = f(*theirs)
    compilations.clear()
    got = torch.compile(f, backend="vulkan", options=OPTIONS)(*ours)
    assert got[0] is ours[0] and sum(len(c.engines) for c in compilations.compilations()) == 1
    for ours_now, theirs_now in zip((*ours, *got), (*theirs, *want), strict=True):
        assert isinstance(ours_now, TwoTensor)
        torch.testing.assert_close(ours_now.a, theirs_now.a)
        torch.testing.assert_close(ours_now.b, theirs_now.b)
    assert got[1].a.data_ptr() == ours[0].a[1:].data_ptr()


class _TimesWeight(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)


def _both():
    return TwoTensor(torch.randn(4, 4), torch.randn(4, 4))


@pytest.mark.parametrize("weight, x, says", [
    (_both, lambda: torch.randn(3, 4), "result 0 is a TwoTensor"),
    (lambda: torch.randn(4, 4), _both, "input x is a TwoTensor")], ids=["result", "input"])
def test_a_subclass_at_the_border_of_a_program(weight, x, says):
    """torch.export would lose count of what the program takes and returns."""
    with pytest.raises(tv.UnsupportedError, match=f"{says}: .*torch.compile"):
        tv.compile(_TimesWeight(weight()).eval(), [x()])


@pytest.mark.parametrize("first, second", [
    (True, False), (None, 2.5), ("relu", "neg"), (2.5, 3.5), (torch.float32, torch.float64)])
def test_a_constant_of_the_program(first, second):
    """Another value is another program, and the first one is still there."""
    def f(x, how):
        if isinstance(how, torch.dtype):
            return (x * 3).to(how)
        if isinstance(how, str):
            return getattr(torch, how)(x)
        return x + 1 if how is None else x * how

    fast, x = torch.compile(f, backend="vulkan", options=OPTIONS), torch.randn(4, 3)
    for how in (first, second, first):
        torch.testing.assert_close(fast(x, how), f(x, how))
