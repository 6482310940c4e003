"""Kernels whose grid has a workgroup for each row, with more rows than a grid may have."""

import warnings

import pytest
import torch


@pytest.mark.parametrize("function", [
    lambda x: x.softmax(-1), lambda x: torch.nn.functional.layer_norm(x, (160,)),
    lambda x: x.sum(-1), lambda x: x.amax(-1), lambda x: torch.cat([x, x + 1], 1)],
    ids=["softmax", "layer_norm", "sum", "amax", "cat"])
def test_more_rows_than_a_grid_has_workgroups(function):
    fast = torch.compile(function, backend="vulkan", dynamic=True, options={"min_block_size": 1})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".* natively")
        for rows in (300, 66000):
            x = torch.randn(rows, 160)
            torch.testing.assert_close(fast(x), function(x), rtol=1e-4, atol=1e-4)
