"""Matrix decompositions, and what is made of them, against eager."""

import pytest
import torch

from parity import OPTIONS, check, check_gradients, tensor

pytestmark = pytest.mark.usefixtures("tactics_of")
aten = torch.ops.aten


def matrices(*shape, seed=0):
    """Well conditioned ones."""
    x = tensor(*shape, seed=seed)
    return x + 3 * torch.eye(shape[-2], shape[-1])


def positive(*shape):
    x = tensor(*shape)
    return x @ x.mT / shape[-1] + torch.eye(shape[-1])


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("count", [1, 7, 33, 64])
def test_triangles(count, upper, unit):
    t = matrices(3, count, count) / count + torch.eye(count)
    options = {"upper": upper, "unitriangular": unit}
    solve = torch.linalg.solve_triangular
    check(lambda t, b, r: (solve(t, b, **options), solve(t[0], b, **options),
                           solve(t.mT, b[0], **(options | {"upper": not upper})),
                           solve(t, r, left=False, **options)),
          t, tensor(3, count, 41), tensor(3, 5, count), length=count)
    check(lambda t, b: (torch.triangular_solve(b, t, upper, False, unit),
                        torch.triangular_solve(b, t, upper, True, unit)[0]),
          t, tensor(3, count, 2), length=count)


@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (5, 11), (3, 11, 5), (2, 0, 0), (0, 3, 3), (64, 64)])
def test_factors(shape):
    x = tensor(*shape)

    def function(x):
        lu, pivots, info = torch.linalg.lu_factor_ex(x)
        return lu, pivots, info, *torch.lu_unpack(lu, pivots), *torch.linalg.lu(x)
    check(function, x, length=20 * shape[-1] + 1)


def bounded(residual, of, steps):
    """Backward errors (Higham, Accuracy and Stability of Numerical Algorithms, theorems 9.3 and 9.4),
    which hold whatever the condition; results themselves differ by it, so that comparisons with
    eager's are wider."""
    assert (residual.abs() <= steps * 2.0**-24 * 1.01 * of).all()


@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (5, 11), (3, 11, 5), (64, 64)])
def test_backward_errors(shape):
    x, b = tensor(*shape), tensor(*shape[:-1], 3)
    factor = torch.compile(torch.linalg.lu, backend="vulkan", fullgraph=True, options=OPTIONS)
    rows, lower, upper = (t.double() for t in factor(x))
    bounded(rows @ lower @ upper - x, rows @ lower.abs() @ upper.abs(), min(shape[-2:]) + 1)
    if shape[-1] == shape[-2]:
        solve = torch.compile(lambda a, b: torch.linalg.solve_ex(a, b)[0], backend="vulkan",
                              fullgraph=True, options=OPTIONS)
        solution = solve(x, b).double()
        bounded(x.double() @ solution - b,
                rows @ lower.abs() @ upper.abs() @ solution.abs(), 3 * shape[-1] + 1)


def test_factors_of_a_singular_matrix():
    x = tensor(5, 5)
    x[:, 2] = 0
    check(lambda x: (torch.linalg.lu_factor_ex(x)[2], torch.linalg.det(x), *torch.linalg.slogdet(x)), x)


@pytest.mark.parametrize("count", [1, 7, 33])
def test_solutions(count):
    a = matrices(2, count, count)

    def function(a, b, v, r):
        lu, pivots, _ = torch.linalg.lu_factor_ex(a)
        solve, factored = torch.linalg.solve_ex, torch.linalg.lu_solve
        return (solve(a, b)[0], solve(a[0], v)[0], solve(a, r, left=False)[0], solve(a, b[0]),
                torch.linalg.inv_ex(a), factored(lu, pivots, b), factored(lu, pivots, b, adjoint=True),
                factored(lu, pivots, r, left=False), factored(lu, pivots, r, left=False, adjoint=True))
    check(function, a, tensor(2, count, 3), tensor(count), tensor(2, 5, count), length=400 * count)


@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (3, 2, 11, 11), (2, 0, 0)])
def test_determinants(shape):
    check(lambda x: (torch.linalg.det(x), *torch.linalg.slogdet(x), torch.logdet(x @ x.mT)), tensor(*shape),
          length=30 * shape[-1] + 1)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (3, 33, 33), (2, 0, 0)])
def test_cholesky(shape, upper):
    def function(x, b):
        factor, info = torch.linalg.cholesky_ex(x, upper=upper)
        return (factor, info, torch.cholesky_solve(b, factor, upper=upper),
                torch.cholesky_inverse(factor, upper=upper))
    check(function, positive(*shape), tensor(*shape[:-1], 3), length=20 * shape[-1] + 1)


def test_cholesky_of_what_is_not_positive():
    x = positive(2, 5, 5)
    x[1, 3, 3] = -4
    check(lambda x: torch.linalg.cholesky_ex(x)[1], x)


def test_factors_that_the_engine_itself_reads():
    def function(x):
        rows, lower, upper = torch.linalg.lu(x)
        return rows.mT @ x, lower.mT, 2 * upper
    check(function, tensor(7, 7), length=20)
    check_gradients(lambda x: torch.linalg.lu_factor_ex(x)[0], matrices(2, 5, 5), length=60)


def test_gradients():
    check_gradients(lambda x, b: torch.linalg.solve_triangular(x, b, upper=False), matrices(5, 5),
                    tensor(5, 3), length=60)


def test_what_does_not_fit_stays_native():
    with pytest.raises(ValueError, match="shared memory"):
        check(lambda x: torch.linalg.inv_ex(x)[0], matrices(200, 200))


def test_checks_of_data_are_no_work():
    """PyTorch raises them; everything that computes is in engines."""
    check(lambda a, b: (torch.linalg.solve(a, b), torch.linalg.inv(a), torch.linalg.lu_factor(a),
                        torch.linalg.matrix_power(a, -2)), matrices(2, 5, 5), tensor(2, 5, 3),
          length=2000)
    check(torch.linalg.cholesky, positive(2, 7, 7), length=150)


def test_errors_by_data_are_raised():
    options = {"min_block_size": 1}
    inverse = torch.compile(torch.linalg.inv, backend="vulkan", options=options)
    torch.testing.assert_close(inverse(2 * torch.eye(3)), torch.eye(3) / 2)
    torch._dynamo.reset()
    plain = torch.compile(torch.linalg.inv, backend="aot_eager")
    try:
        plain(torch.zeros(3, 3))
    except RuntimeError:
        with pytest.raises(RuntimeError, match="singular"):
            inverse(torch.zeros(3, 3))
    else:
        pytest.skip(f"PyTorch {torch.__version__} drops the check from every graph")
