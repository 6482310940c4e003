"""Arguments that a TorchScript module is tried with before it is compiled."""

import math
import random
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from .._base.inputs import Arguments, Input, is_leaf

_BETWEEN = 3  # sets of sizes between the smallest and the largest


@dataclass
class Examples:
    """Sets of arguments of forward, in its order, each at other sizes.

    Attributes:
        sets: the sets.
        fitted: the first so many say how sizes depend on each other, the rest how large they
            become; 0: there is one set, and engines are for its sizes.
        usual: the set whose sizes kernels are chosen for.
    """

    sets: list[tuple]
    fitted: int = 0
    usual: int = 0


def examples(module: torch.jit.ScriptModule, arguments: Arguments | None, device) -> list[Examples]:
    """Ways to try forward, the best first: which sizes have to be equal, and what they have to be
    multiples of, is not known. Raises ValueError if arguments are missing."""
    if arguments is None:
        raise ValueError("tv.compile: inputs are missing: a list of tv.Input or tensors")
    if not any(isinstance(leaf, Input) and leaf.dynamic_dims() for leaf in arguments.leaves()):
        return [Examples([_positional(module, arguments, device, lambda dim: dim.opt)])]
    ways = [_Sizes(lambda dim: (dim.leaf, dim.axis), False), _Sizes(lambda dim: dim.axis, False),
            _Sizes(lambda dim: dim.axis, True), _Sizes(lambda dim: 0, True)]
    return [_at_several_sizes(module, arguments, device, way) for way in ways]


@dataclass(frozen=True)
class _Dim:
    """A dimension of the leaf-th argument."""

    leaf: int
    axis: int
    low: int
    opt: int
    high: int

    @property
    def least(self) -> int:
        """The smallest size that says what larger ones do: 1 may be broadcast."""
        return max(self.low, 2) if self.high > 2 else max(self.low, 1)


class _Sizes:
    """Chooses sizes; dimensions of one range and one `group` have the same."""

    def __init__(self, group, in_steps: bool):
        self._group, self._in_steps = group, in_steps
        self._random = random.Random(7)
        self._chosen: dict = {}

    def between(self, k: int):
        """Chooses the k-th set of sizes."""
        return lambda dim: self._of(dim)[k]

    def _of(self, dim: _Dim) -> tuple:
        key = dim.low, dim.opt, dim.high, self._group(dim)
        if key not in self._chosen:
            step = math.gcd(dim.low, dim.opt, dim.high) if self._in_steps else 1
            first = -(-dim.least // step)
            last = max(first, min(dim.high // step, first + 12))
            for _ in range(30):  # no two of them alike
                sizes = tuple(step * self._random.randint(first, last) for _ in range(_BETWEEN))
                if sizes not in self._chosen.values():
                    break
            self._chosen[key] = sizes
        return self._chosen[key]


def _at_several_sizes(module, arguments, device, way) -> Examples:
    def given(choose):
        return _positional(module, arguments, device, choose)

    sets = [given(lambda dim: max(dim.opt, dim.least)),
            *(given(way.between(k)) for k in range(_BETWEEN)),
            given(lambda dim: dim.least), given(lambda dim: dim.high)]
    fitted = len(sets)
    sets += [given(lambda dim: dim.low), given(lambda dim: dim.opt)]
    return Examples(sets, fitted, usual=fitted + 1)


def _positional(module, arguments, device, choose) -> tuple:
    leaves = iter(range(len(arguments.leaves())))
    args, kwargs = pytree.tree_map(lambda value: _example(value, next(leaves), device, choose),
                                   (arguments.args, arguments.kwargs), is_leaf=is_leaf)
    formal = module._c._get_method("forward").schema.arguments[1:]
    names = [argument.name for argument in formal]
    unknown = [name for name in kwargs if name not in names[len(args):]]
    if unknown or len(args) > len(formal):
        raise ValueError(f"inputs: forward takes {names}, got {len(args)} and {sorted(kwargs)}")
    for argument in formal[len(args):]:
        if argument.name in kwargs:
            args += (kwargs[argument.name],)
        elif argument.has_default_value():
            args += (argument.default_value,)
        else:
            raise ValueError(f"inputs: argument {argument.name!r} of forward is missing")
    return args


def _example(given, leaf, device, choose):
    """A tensor that forward may write to; random numbers for an Input, zeros of integers."""
    if isinstance(given, torch.Tensor):
        return given.detach().clone()
    if not isinstance(given, Input):
        return given
    sizes = [low if low == high else choose(_Dim(leaf, axis, low, opt, high))
             for axis, (low, opt, high) in enumerate(given.dims)]
    if not given.dtype.is_floating_point:
        return torch.zeros(sizes, dtype=given.dtype, device=device)
    generator = torch.Generator().manual_seed(0)
    return torch.randn(sizes, generator=generator).to(device, given.dtype)
