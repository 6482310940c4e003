"""nonzero_static against eager."""

import pytest
import torch

from parity import check, tensor

nonzero = torch.ops.aten.nonzero_static


def sparse(*shape, dtype=torch.float32):
    return torch.where(tensor(*shape, seed=3) > 0, tensor(*shape), torch.zeros(())).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("shape", [(1,), (113,), (5, 1, 7), (11, 37)])
def test_coordinates(shape, dtype):
    check(lambda x: (nonzero(x, size=3), nonzero(x, size=501, fill_value=-7), nonzero(x.mT, size=41)
                     if x.dim() > 1 else nonzero(x * 0, size=2)), sparse(*shape, dtype=dtype))


def test_without_elements_rows_or_dimensions():
    check(lambda x, y: (nonzero(x[:0], size=3), nonzero(x, size=0), nonzero(y, size=4) + 1,
                        nonzero(0 * x, size=2)), sparse(5, 7), torch.tensor(2.0))


def test_more_than_one_workgroup():
    check(lambda x: nonzero(x, size=20000), sparse(173, 211))
