"""Eager with other roundings: shows how far a program magnifies them."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

# What moves elements and computes none, so rounds nothing.
MOVES = ("copy", "clone", "view", "select", "slice", "detach", "fill", "zero", "index", "expand",
         "transpose", "permute", "squeeze", "split", "unbind", "diagonal", "as_strided", "full",
         "arange", "empty", "cat", "stack", "gather", "scatter", "where", "masked", "alias", "relu",
         "neg", "abs", "clamp", "max", "min", "lift", "roll", "flip", "pad", "tril", "triu", "sort",
         "topk", "ones", "new_", "t.", "unfold", "repeat", "rand", "dropout", "bernoulli")


class Roundings(TorchDispatchMode):
    """Moves what each operator computes by an eps or so, unless float64 says that it is exact."""

    def __init__(self, seed: int):
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = str(func).removeprefix("aten.")
        moves = any(name.lstrip("_").startswith(word) for word in MOVES)
        wide = None if moves else self._in_float64(func, args, kwargs)
        result = func(*args, **kwargs)
        if not moves:
            for got, exact in zip(_tensors(result), wide or [None] * 9, strict=False):
                self._move(got, exact)
        return result

    def _in_float64(self, func, args, kwargs):
        def widened(x):
            if not isinstance(x, torch.Tensor):
                return x
            return x.to(torch.float64, copy=True) if x.is_floating_point() else x.clone()
        try:
            return _tensors(func(*tree_map(widened, args), **tree_map(widened, kwargs)))
        except Exception:  # noqa: BLE001  then it is taken to round
            return None

    def _move(self, got: torch.Tensor, exact) -> None:
        if not got.is_floating_point() or not got.numel() or got.numel() > 1 << 20:
            return
        signs = torch.randint(-2, 3, got.shape, generator=self._generator)
        if exact is not None and exact.dtype == torch.float64 and exact.shape == got.shape:
            signs = signs * (got.double() != exact.double())
        try:
            got.add_((got.double() * torch.finfo(got.dtype).eps * signs).to(got.dtype))
        except RuntimeError:  # elements that overlap
            pass


def _tensors(result) -> list:
    items = result if isinstance(result, (tuple, list)) else [result]
    return [r for r in items if isinstance(r, torch.Tensor)]
