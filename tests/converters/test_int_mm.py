"""Products of 8-bit integers: aten::_int_mm. Results are integers, so they are eager's exactly."""

import pytest
import torch

from parity import FLOATS, OPTIONS, check, check_tactic, tensor


def _operands(m, k, n, dtype=torch.int8):
    return (tensor(m, k, dtype=dtype, low=-128, high=torch.iinfo(dtype).max + 1),
            tensor(k, n, dtype=torch.int8, low=-128, high=128, seed=1))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize("m, k, n", [(1, 4, 1), (3, 5, 7), (5, 12, 4), (37, 41, 29), (89, 64, 113),
                                     (2, 300, 9), (4, 0, 3), (0, 4, 3), (3, 7, 0)])
def test_shapes(m, k, n, dtype):
    if dtype == torch.uint8 and torch.__version__ < "2.12":
        pytest.skip("eager's product on the CPU takes no uint8 before PyTorch 2.12")
    check(lambda a, b: torch._int_mm(a, b), *_operands(m, k, n, dtype))


@pytest.mark.parametrize("tactic", ["matmul_integer_simt_4x4", "matmul_integer_simt_1x4",
                                    "matmul_integer_reference"])
@pytest.mark.parametrize("k", [11, 12])
def test_tactics(tactic, k):
    check_tactic(tactic, lambda a, b: torch._int_mm(a, b), *_operands(7, k, 13))


def test_views():
    a, b = _operands(16, 24, 20)
    check(lambda a, b: torch._int_mm(a, b.t()), a, b.t().contiguous())
    check(lambda a, b: torch._int_mm(a.t(), b[::2]), a, _operands(16, 32, 20)[1])
    check(lambda a, b: torch._int_mm(a[1:, 3:], b[3:]), a, b)
    check(lambda a, b: torch._int_mm(a.flip(1), b.flip(0)), a, b)
    # Eager is wrong where a row is repeated with stride 0, but right where a column is.
    check(lambda a, b: torch._int_mm(a[:, :1].expand(16, 24), b[:, :1].expand(24, 20)), a, b)


@pytest.mark.parametrize("dtype", FLOATS)
def test_scaled(dtype):
    """As quantised layers call it: the scales are fused into the product."""
    a, b = _operands(5, 29, 11)
    check(lambda a, b, x, y: (torch._int_mm(a, b) * x * y).to(dtype), a, b,
          tensor(5, 1), tensor(11))


def test_weight():
    """A weight's rows are packed once, and again when the weight changes."""
    weight = _operands(1, 29, 11)[1]

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", weight.t().contiguous())

        def forward(self, x):
            return torch._int_mm(x, self.weight.t())

    layer, x = Layer(), _operands(7, 29, 1)[0]
    fast = torch.compile(layer, backend="vulkan", fullgraph=True, options=OPTIONS)
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(fast(x), layer(x))
            layer.weight.copy_(layer.weight.flip(0))


def test_dynamic():
    check(lambda a, b: torch._int_mm(a, b), *_operands(5, 12, 7), dynamic=True,
          more=[_operands(1, 3, 2), _operands(37, 41, 29), _operands(3, 0, 4)])


def test_sums_wrap():
    a = torch.full((2, 60_000), -128, dtype=torch.int8)
    check(lambda a: torch._int_mm(a, a.t()) * 3, a)

