"""Products of rows with the matrices of their groups: mixtures of experts."""

import json

import pytest
import torch

import torch_vulkan as tv

from parity import check, check_tactic, on_cpu, tensor

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


# CPU drivers' kernels: a tile of so many rows is of one group.
PROFILE = json.loads(tv.devices()[0].profile())
HEIGHTS = {8: (6, 3, 1), 16: (8, 4, 2, 1)}.get(PROFILE["subgroup_size"], ())
def ragged(groups, most, seed=0):
    """Sizes of groups, some of which are empty."""
    counts = torch.randint(0, most, (groups,), generator=torch.Generator().manual_seed(seed))
    return counts.where(counts % 3 != 1, torch.zeros_like(counts)).tolist()


@on_cpu
@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("counts", [*COUNTS, [1, 1, 1, 26], ragged(53, 9), ragged(7, 41, seed=1)])
def test_tiles_of_groups(counts, height):
    groups, rows = len(counts), max(sum(counts), 29)
    x, weight = tensor(rows, 67), tensor(groups, 67, 41, seed=1)
    for group, count in enumerate(counts):
        if count == 0:
            weight[group] = float("nan")
    x[sum(counts):] = float("inf")  # zeros, whatever it is multiplied by
    tactic = f"matmul_grouped_simd_{height}"
    check_tactic(tactic, FALLBACK, x, weight, ends(counts), length=67)


@on_cpu
@pytest.mark.parametrize("height", HEIGHTS[:2])
@pytest.mark.parametrize("k, n", [(3, 89), (64, 1), (64, 33), (113, 31), (521, 7), (521, 32),
                                  (521, 89), (1031, 33)])
def test_sizes_of_matrices(k, n, height):
    """Of one launch and of several; with less than a tile of columns; with and without padding."""
    counts = [5, 0, 41, 18, 0, 7] if n * k > 1000 else [500, 0, 411, 900, 0, 3]
    x, weight = tensor(sum(counts), k), tensor(len(counts), n, k, seed=1) / k**0.5
    weight, other = torch.nn.Parameter(weight), tensor(sum(counts), n, seed=2)
    check_tactic(f"matmul_grouped_simd_{height}",
                 lambda x, e, o: torch.relu(FALLBACK(x, weight.mT, e)) * o + 1, x, ends(counts),
                 other, length=k)


@on_cpu
@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_in_tiles(dtype, height):
    counts = ragged(11, 13)
    x = tensor(sum(counts) + 2, 97, dtype=dtype)
    narrow, wide = (tensor(11, n, 97, dtype=dtype, seed=n) for n in (23, 40))

    def both(x, narrow, wide, e):
        return FALLBACK(x, narrow.mT, e) * 2, FALLBACK(x, wide.mT, e)

    check_tactic(f"matmul_grouped_simd_{height}", both, x, narrow, wide, ends(counts), length=97)


@on_cpu
def test_dynamic_rows_in_tiles():
    weight = torch.nn.Parameter(tensor(4, 97, 44, seed=1))
    cases = [(tensor(rows, 44), ends(counts)) for rows, counts in (
        (200, [7, 0, 100, 93]), (2, [0, 1, 0, 1]), (1, [0, 0, 0, 0]), (613, [613, 0, 0, 0]),
        (41, [0, 11, 0, 29]))]
    check_tactic(f"matmul_grouped_simd_{HEIGHTS[0]}", lambda x, e: FALLBACK(x, weight.mT, e),
                 *cases[0], length=44, dynamic=True, more=cases[1:])
