"""Products of Householder reflectors as products of matrices, gradients included."""

import contextlib

import torch
from torch._C import DispatchKey

_operator = torch.ops.aten.linalg_householder_product.default
_MOST = 32  # reflectors; each is nine nodes, and twenty more in a backward graph


def _is_taken_apart(input, tau) -> bool:
    """Whether shapes are valid, known and small, and numbers those of engines."""
    if input.dtype != torch.float32 or tau.dtype != torch.float32 or input.dim() < 2:
        return False
    *batch, rows, columns = input.shape
    count = tau.shape[-1] if tau.dim() == input.dim() - 1 else None
    return (all(isinstance(n, int) for n in (rows, columns, count))
            and list(tau.shape[:-1]) == batch
            and 0 < count <= min(columns, _MOST) and columns <= rows)


def traced_householder_product(input: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
    """In place of torch.linalg.householder_product while a graph is traced: the first columns of
    H_1 H_2 … H_k, H_i = 1 - tau_i v_i v_i^T, by LAPACK's order of operations (dorg2r), which
    applies the last reflector first.

    input: (…, m, n), below its diagonal the reflectors, whose leading 1 is not stored; tau: (…, k),
    k <= n <= m; gives (…, m, n), column after column in memory as PyTorch's own. Its gradient goes
    through products with reflectors alone. PyTorch's own formula divides by reflectors, which
    loses digits where tau |v|^2 is far from 2, ten times the error in op_db's samples, and starts
    from the float32 result.
    """
    if not _is_taken_apart(input, tau):
        with _pytorchs_own():
            return _operator(input, tau)
    *batch, rows, columns = input.shape
    count = tau.shape[-1]
    done = torch.eye(columns - count, rows - count, dtype=input.dtype, device=input.device)
    done = done.expand(*batch, columns - count, rows - count)  # transposed
    for i in reversed(range(count)):
        scale = tau[..., i, None, None]
        rest = input[..., i + 1:, i].unsqueeze(-1)  # of the reflector, below its 1
        scaled = (scale * rest).mT
        along = done @ rest
        done = torch.cat([torch.cat([1 - scale, -scaled], -1),
                          torch.cat([-scale * along, done - along * scaled], -1)], -2)
    return done.mT


@contextlib.contextmanager
def _pytorchs_own():
    """Without the replacement."""
    kernel = _operator.py_kernels.pop(DispatchKey.Autograd)
    _operator._dispatch_cache.clear()
    try:
        yield
    finally:
        _operator.py_kernels[DispatchKey.Autograd] = kernel
        _operator._dispatch_cache.clear()


REPLACEMENT = (_operator, (DispatchKey.Autograd,), traced_householder_product)
