"""linspace between tensors and logspace against eager."""

import pytest
import torch

from marks import turns
from parity import OPTIONS, check


@turns(3)
@pytest.mark.parametrize("steps", [0, 1, 2, 7, 113])
def test_between_tensors(steps):
    def function(a, b, k):
        return (torch.linspace(a, b, steps), torch.linspace(a, 3.5, steps), torch.linspace(-1, b, steps),
                torch.linspace(k, b, steps))
    check(function, torch.tensor(-2.25), torch.tensor(4.5), torch.tensor(3))


@turns(3)
@pytest.mark.parametrize("steps", [0, 1, 2, 7, 113])
def test_powers(steps):
    def function(a, b):
        return (torch.logspace(-3, 2, steps), torch.logspace(a, b, steps), torch.logspace(a, 2, steps, 2),
                torch.logspace(0.5, b, steps, 1.1))
    check(function, torch.tensor(-2.25), torch.tensor(4.5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounded_once(dtype):
    """Eager computes these in 16 bits."""
    def function(a, b, dtype=dtype):
        return torch.linspace(a, b, 113, dtype=dtype), torch.logspace(a, b, 41, dtype=dtype)
    a, b = torch.tensor(-2.25), torch.tensor(4.5)
    compiled = torch.compile(function, backend="vulkan", fullgraph=True, options=OPTIONS)
    for actual, wide in zip(compiled(a, b), function(a, b, torch.float32), strict=True):
        torch.testing.assert_close(actual, wide.to(dtype), rtol=torch.finfo(dtype).eps, atol=0)


def test_integers_stay_native():
    with pytest.raises(ValueError, match="integers"):
        check(lambda: torch.logspace(0, 4, 5, dtype=torch.int64) + 1)
