"""Products of matrices and vectors."""

import pytest
import torch

from marks import slow_but, turns
from parity import FLOATS, OPTIONS, check, check_gradients, check_tactic, on_cpu, tensor

aten = torch.ops.aten


# Each length of a product is a kernel, which lavapipe takes up to 4 s to compile: tests share a few.
SIZES = [(1, 1, 1), (3, 5, 7), (1, 113, 89), (41, 64, 1), (89, 37, 113), (8, 64, 32), (9, 65, 33), (64, 512, 64),
         (65, 577, 47), (128, 192, 192), (200, 136, 72)]


@turns(3)
@pytest.mark.parametrize("m,k,n", slow_but(SIZES, [*SIZES, (128, 256, 192)], rows=True))
def test_mm(m, k, n):
    check(torch.mm, tensor(m, k), tensor(k, n, seed=1) / 4, length=k)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("m,k,n", slow_but(
    [(37, 100, 53), (16, 128, 64), (1, 136, 128), (128, 72, 200)],
    [(37, 100, 53), (16, 128, 64), (1, 136, 128), (1, 264, 128), (128, 72, 200)], rows=True))
def test_mm_dtypes(dtype, m, k, n):
    check(
        torch.mm,
        tensor(m, k, dtype=dtype),
        tensor(k, n, seed=1, dtype=dtype),
        length=k,
        double=True,
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_reference(dtype):
    """What the others are checked against, and what a device takes that none of them suits."""
    check_tactic("matmul_reference", torch.mm, tensor(37, 100, dtype=dtype),
                 tensor(100, 53, seed=1, dtype=dtype), length=100, double=True)


def test_a_tactic_that_is_not_taken_is_an_error():
    with pytest.raises(AssertionError, match="taken were .*matmul_"):
        check_tactic("matmul_nothing", lambda a: a @ a, tensor(3, 3), length=3)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_mm_integers(dtype):
    check(torch.mm, tensor(11, 29, dtype=dtype), tensor(29, 7, dtype=dtype, seed=1))


def test_mm_of_views():
    check(lambda a, b: a.t() @ b.t(), tensor(64, 41), tensor(53, 64, seed=1), length=64)
    check(lambda a, b: a[:, ::2] @ b[3:67, 5:], tensor(41, 128), tensor(80, 58, seed=1), length=64)


def test_constant_operands():
    w = tensor(192, 130, seed=2) / 4
    check(lambda x: x @ w, tensor(37, 192), length=192)
    check(lambda x: w.t() @ x, tensor(192, 41), length=192)


ORDERS = [("rows", 80, 53), ("rows", 100, 64), ("columns", 192, 96), ("columns", 80, 53), ("columns", 65, 33),
          ("neither", 192, 96), ("half", 80, 64)]


@turns(3)
@pytest.mark.parametrize("order,k,n", slow_but(
    ORDERS, [*ORDERS, ("columns", 336, 96), ("neither", 336, 96)], rows=True))
def test_every_order_of_constants(order, k, n):
    """Blocks are transposed, moved or packed element by element."""
    w = tensor(k, n, seed=2) / 4
    if order in ("columns", "half"):
        w = w.t().contiguous().t()
    elif order == "neither":
        w = torch.stack([w, w + 1], dim=-1)[..., 0]
    x = tensor(3, 37, k)
    if order == "half":
        x, w = x.half(), w.half()
    check(lambda x: x @ w.to(x.dtype), x, length=k, double=True, optimization_level=0)
    check(lambda x: w.to(x.dtype).t() @ x.mT, x, length=k, double=True, optimization_level=0)


@pytest.mark.parametrize("b,m,k,n", [(3, 5, 7, 11), (12, 37, 64, 41), (2, 29, 89, 64)])
def test_bmm(b, m, k, n):
    check(torch.bmm, tensor(b, m, k), tensor(b, k, n, seed=1), length=k)


def test_matmul_broadcasts():
    check(torch.matmul, tensor(2, 1, 29, 64), tensor(3, 64, 41, seed=1), length=64)
    check(torch.matmul, tensor(5, 29, 64), tensor(64, 41, seed=1), length=64)
    check(torch.matmul, tensor(29, 64), tensor(5, 64, 41, seed=1), length=64)
    check(torch.matmul, tensor(7, 29), tensor(29, seed=1), length=29)
    check(torch.matmul, tensor(29), tensor(3, 29, 5, seed=1), length=29)
    check(torch.matmul, tensor(29), tensor(29, seed=1), length=29)


def test_heads_of_permuted_tensors():
    def scores(q, k):
        q, k = (t.view(2, 37, 4, 64).transpose(1, 2) for t in (q, k))
        return q @ k.transpose(2, 3)

    check(scores, tensor(2, 37, 256), tensor(2, 37, 256, seed=1), length=64)


@pytest.mark.parametrize("beta,alpha", [(1, 1), (0, 1), (0.5, -2)])
def test_addmm(beta, alpha):
    check(
        lambda c, a, b: torch.addmm(c, a, b, beta=beta, alpha=alpha),
        tensor(53),
        tensor(37, 64),
        tensor(64, 53, seed=1),
        length=64,
    )
    check(
        lambda c, a, b: torch.baddbmm(c, a, b, beta=beta, alpha=alpha),
        tensor(3, 37, 1),
        tensor(3, 37, 64),
        tensor(3, 64, 53, seed=1),
        length=64,
    )


def test_addmm_with_beta_zero_drops_nan():
    c = torch.full((37, 53), float("nan"))
    check(
        lambda c, a, b: torch.addmm(c, a, b, beta=0),
        c,
        tensor(37, 64),
        tensor(64, 53, seed=1),
        length=64,
    )


def test_vectors():
    check(torch.mv, tensor(37, 64), tensor(64, seed=1), length=64)
    check(torch.dot, tensor(113), tensor(113, seed=1), length=113)
    check(torch.addmv, tensor(37), tensor(37, 64), tensor(64, seed=1), length=64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_linear_with_epilogue(dtype):
    w, b = tensor(113, 192, dtype=dtype, seed=2) / 8, tensor(113, dtype=dtype, seed=3)
    check(
        lambda x, w, b, r: torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)) + r,
        tensor(2, 29, 192, dtype=dtype),
        w,
        b,
        tensor(2, 29, 113, dtype=dtype, seed=4),
        length=192,
        double=True,
    )


def test_not_a_number_stays_in_its_row_and_column():
    a, b = tensor(37, 65), tensor(65, 53, seed=1)
    a[3, 64] = float("nan")
    b[0, 52] = float("inf")
    check(torch.mm, a, b, length=65)


@pytest.mark.parametrize("disable_tf32,bits", [(True, 20), (False, 10)])
@pytest.mark.parametrize("spread", [0, 12, 40])
@pytest.mark.setting("disable_tf32")
def test_error_against_the_sum_of_magnitudes(disable_tf32, bits, spread):
    a, b = tensor(72, 264), tensor(264, 56, seed=1)
    a = torch.ldexp(a, torch.randint(-spread, spread + 1, a.shape))
    b = torch.ldexp(b, torch.randint(-spread, spread + 1, b.shape))
    compiled = torch.compile(lambda a, b: a @ b, backend="vulkan",
                             options={**OPTIONS, "disable_tf32": disable_tf32})
    error = (compiled(a, b).double() - a.double() @ b.double()).abs()
    assert (error <= 2.0**-bits * (a.double().abs() @ b.double().abs())).all()


def test_dynamic_rows():
    w = tensor(192, 130, seed=2) / 4
    check(
        lambda x: x @ w,
        tensor(5, 192),
        length=192,
        dynamic=True,
        more=[(tensor(n, 192, seed=n),) for n in (37, 64, 2)],
    )


def test_dynamic_everything():
    check(
        torch.bmm,
        tensor(3, 37, 41),
        tensor(3, 41, 29, seed=1),
        length=41,
        dynamic=True,
        more=[
            (tensor(2, 5, 70), tensor(2, 70, 11, seed=1)),
            (tensor(5, 64, 64), tensor(5, 64, 64, seed=1)),
        ],
    )


def test_long_symbolic_sums():
    check(
        lambda a, b: a @ b,
        tensor(11, 300),
        tensor(300, 37, seed=1) / 16,
        length=5000,
        dynamic=True,
        more=[
            (tensor(5, 4097), tensor(4097, 41, seed=1) / 16),
            (tensor(41, 64), tensor(64, 9, seed=1)),
        ],
    )


def test_more_matrices_than_workgroups_in_one_dimension(device):
    """65,535 are what many devices launch: other tactics take more, and ranges run natively there."""
    a, b = torch.randn(70001, 3, 4), torch.randn(70001, 4, 33)
    check(torch.bmm, a, b, length=4)
    compiled = torch.compile(torch.bmm, backend="vulkan", dynamic=True, options=OPTIONS)
    torch.testing.assert_close(compiled(a[:9], b[:9]), torch.bmm(a[:9], b[:9]))
    torch.testing.assert_close(compiled(a, b), torch.bmm(a, b))


def test_empty():
    check(torch.mm, tensor(0, 5), tensor(5, 7))
    check(torch.mm, tensor(3, 0), tensor(0, 7))


def test_gradients():
    check_gradients(
        torch.nn.functional.linear,
        tensor(3, 29, 64),
        tensor(41, 64, seed=1),
        tensor(41, seed=2),
        length=87,
    )
    check_gradients(torch.bmm, tensor(3, 29, 64), tensor(3, 64, 41, seed=1), length=64)


@on_cpu
@pytest.mark.parametrize("m, n, k, batch", [
    (1, 1031, 64, 1), (2, 509, 41, 3), (3, 89, 113, 2), (4, 33, 256, 2), (5, 37, 271, 5),
    (11, 31, 32, 5), (17, 7, 769, 1), (33, 64, 128, 1), (1, 1, 1031, 37)])
def test_few_rows_of_a_computed_matrix(m, n, k, batch):
    """b, [n, k] in memory, is not packed; where n is a tile wide a sum ends in its epilogue."""
    a, b = tensor(batch, m, k), tensor(batch, n, k, seed=1) / k**0.5
    check_tactic("matmul_simd_dots", lambda a, b, c: torch.relu(a @ b.mT) * 3 + c, a, b,
                 tensor(batch, m, n, seed=2), length=k)


@on_cpu
@pytest.mark.parametrize("m, k", [(1031, 37), (89, 521), (33, 1031), (5, 113)])
def test_one_column(m, k):
    """The matrix is read where it lies, computed or constant."""
    a, b, c = tensor(19, m, k), tensor(19, k, 1, seed=1) / k**0.5, tensor(m, 1, seed=2)
    constant = torch.nn.Parameter(tensor(401, k, seed=3))
    check_tactic("matmul_simd_dots", lambda a, b, c: (torch.relu(a @ b) * c, constant @ b[0]), a, b,
                 c, length=k)


@on_cpu
def test_few_rows_that_are_not_finite():
    """Each vector's last elements are counted once, and none of a neighbour's."""
    a, b = tensor(2, 3, 41), tensor(2, 137, 41, seed=1)
    a[0, 1, 40], b[1, 5, 0], b[1, 7, 3] = float("inf"), float("nan"), float("-inf")
    check_tactic("matmul_simd_dots", lambda a, b: a @ b.mT, a, b, length=41)


@on_cpu
def test_few_rows_of_strided_matrices():
    keys = tensor(1, 113, 4, 48, seed=1)

    def scores(q, keys):
        return q.transpose(1, 2)[..., 8:] @ keys.transpose(1, 2)[:, :, 5:, :40].mT

    check_tactic("matmul_simd_dots", scores, tensor(1, 3, 4, 48), keys, length=40)


@on_cpu
def test_few_rows_of_any_number_of_columns():
    cases = [(tensor(3, m, 40), tensor(3, n, 40, seed=1)) for m, n in (
        (4, 300), (1, 700), (2, 33), (7, 5), (3, 2))]
    check_tactic("matmul_simd_dots", lambda a, b: a[..., :37] @ b[..., :37].mT, *cases[0],
                 length=37, dynamic=True, more=cases[1:])


@on_cpu
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_tiles_of_few_rows(m):
    weight = torch.nn.Parameter(tensor(113, 300, seed=1) / 16)
    check_tactic("matmul_simd", lambda x, c: (x @ weight.mT + c, x @ weight.mT[:, :29]),
                 tensor(m, 300), tensor(m, 113), length=300)
    torch._dynamo.reset()
    check_tactic("matmul_simd", torch.matmul, tensor(7, m, 100), tensor(7, 100, 50, seed=1) / 16,
                 length=100)
