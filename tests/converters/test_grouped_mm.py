"""Products of rows with the matrices of their groups: mixtures of experts."""

import pytest
import torch

from parity import check, tensor

pytest.importorskip("transformers.integrations.moe", exc_type=ImportError,
                    reason="it registers transformers::grouped_mm_fallback")
if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):
    pytest.skip("these transformers register no grouped_mm_fallback", allow_module_level=True)

FALLBACK = torch.ops.transformers.grouped_mm_fallback
# Rows of each group: spread, none for some, all for one, none at all, rows behind all groups.
COUNTS = ([5, 7, 11, 6], [0, 13, 0, 16], [0, 0, 29, 0], [29, 0, 0, 0], [0, 0, 0, 0], [3, 0, 2, 0])


def ends(counts, dtype=torch.int32):
    return torch.tensor(counts).cumsum(0).to(dtype)


@pytest.mark.parametrize("counts", COUNTS)
def test_every_routing(counts, tactics_of):
    x, weight = tensor(29, 44), tensor(4, 37, 44, seed=1)
    for group, count in enumerate(counts):
        if count == 0:
            weight[group] = float("nan")  # nobody multiplies it, by zeros neither
    check(lambda x, w, e: FALLBACK(x, w.transpose(1, 2), e), x, weight, ends(counts), length=44)
    check(lambda x, w, e: FALLBACK(x, w, e), x, weight.mT.contiguous(),
          ends(counts, torch.int64), length=44)


@pytest.mark.parametrize("rows", [1, 2, 3, 70])
def test_rows(rows, tactics_of):
    x, weight = tensor(rows, 41), tensor(3, 41, 89, seed=1)
    counts = [rows // 2, 0, rows - rows // 2]
    check(lambda x, w, e: torch.relu(FALLBACK(x, w, e)) + 1, x, weight, ends(counts), length=41)
    check(lambda x, w, e: FALLBACK(x[:, :40], w, e), x, weight[:, :40], ends(counts), length=40)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits(dtype, tactics_of):
    x, weight = tensor(29, 48, dtype=dtype), tensor(4, 40, 48, dtype=dtype, seed=1)
    check(lambda x, w, e: FALLBACK(x, w.transpose(1, 2), e), x, weight, ends(COUNTS[1]), length=48)


@pytest.mark.parametrize("counts", COUNTS[:4])
def test_pytorchs_own(counts, tactics_of):
    """torch._grouped_mm leaves rows behind all groups as they are: they have no result."""
    x = tensor(29, 48, dtype=torch.bfloat16)
    weight = tensor(4, 40, 48, dtype=torch.bfloat16, seed=1)
    check(lambda x, w, e: torch._grouped_mm(x, w.transpose(1, 2), e), x, weight, ends(counts),
          length=48)


def test_dynamic_rows():
    weight = tensor(4, 37, 44, seed=1)
    check(lambda x, e: FALLBACK(x, weight.transpose(1, 2), e), tensor(29, 44), ends(COUNTS[0]),
          length=44, dynamic=True,
          more=[(tensor(7, 44), ends([0, 3, 0, 4])), (tensor(70, 44), ends([0, 70, 0, 0]))])
