"""How a program is called: the structure, dtypes and shapes of its arguments, and their checks."""

from dataclasses import dataclass, field

import sympy
import torch
from torch.utils import _pytree as pytree

from .._torch.ranges import Range, Sizes
from .conditions import Conditions


@dataclass
class Argument:
    """One flattened argument.

    Attributes:
        name: as messages and engine files have it.
        dtype: of a tensor; None if the argument is a plain value.
        dims: sizes, or expressions of symbols.
        value: what a plain value has to be.
    """

    name: str
    dtype: torch.dtype | None = None
    dims: list = field(default_factory=list)
    value: object = None


class Signature:
    """The arguments of one program.

    Args:
        arguments: in flattened order.
        ranges: (min, opt, max) of each symbol in their dims.
        in_spec, out_spec: pytree's structure of (args, kwargs) and of the results.
        names: the parameters of the module's forward.
        profiles: narrower ranges, of which a call has to fit one; none: all of `ranges`.
        conditions: what sizes have to fulfil besides.
    """

    def __init__(self, arguments: list[Argument], ranges: dict[sympy.Symbol, Range],
                 in_spec, out_spec, names: list[str], profiles=(),
                 conditions: Conditions | None = None):
        self.profiles = list(profiles)
        self.conditions = conditions
        self.arguments = arguments
        self.ranges = ranges
        self.in_spec = in_spec
        self.out_spec = out_spec
        self._names = names
        self._checks = [self._check_of(argument) for argument in arguments]

    @property
    def sizes(self) -> Sizes:
        """What a graph is compiled for."""
        return Sizes(self.ranges, self.profiles)

    def flatten(self, args: tuple, kwargs: dict) -> list:
        """The flattened arguments of a call.

        Raises:
            ValueError: their structure is not the one that was compiled.
        """
        if kwargs or self.in_spec.child(1).num_children:
            args, kwargs = self._arrange(args, kwargs)
        flat, spec = pytree.tree_flatten((args, kwargs))
        if spec != self.in_spec and not self._equivalent(spec):
            raise ValueError(f"the program was compiled for arguments like {self._text()}, got "
                             f"{_structure((args, kwargs))}")
        return flat

    def tree(self, leaves: list) -> tuple[tuple, dict]:
        """(args, kwargs) as the program was compiled for, with `leaves` in place of values."""
        return pytree.tree_unflatten(leaves, self.in_spec)

    def names_of(self, count: int) -> list[str]:
        """Names of the first `count` arguments by position."""
        names = self._names[:count]
        return [*names, *(f"arg_{i}" for i in range(len(names), count))]

    def _equivalent(self, spec) -> bool:
        """True for the same structure of other sequence types: lists in place of tuples."""
        return _plain(pytree.tree_unflatten(range(spec.num_leaves), spec)) == _plain(
            pytree.tree_unflatten(range(self.in_spec.num_leaves), self.in_spec))

    def _arrange(self, args, kwargs):
        """The arguments by position and by keyword as they were when the program was compiled."""
        positional = self.in_spec.child(0).num_children
        keywords = self.in_spec.child(1).context
        given = dict(zip(self._names, args))
        if len(args) > len(self._names) or given.keys() & kwargs.keys():
            return args, kwargs
        given |= kwargs
        wanted = [*self._names[:positional], *keywords]
        if sorted(given) != sorted(wanted) and len(args) != positional:
            raise ValueError(f"arguments: got {sorted(given)}, want {wanted}")
        if len(args) == positional and sorted(kwargs) == sorted(keywords):
            return args, {name: kwargs[name] for name in keywords}
        if sorted(given) != sorted(wanted):
            raise ValueError(f"arguments: got {sorted(given)}, want {wanted}")
        return (tuple(given[name] for name in self._names[:positional]),
                {name: given[name] for name in keywords})

    def _text(self) -> str:
        return _structure(pytree.tree_unflatten([a.name for a in self.arguments], self.in_spec))

    def check(self, flat: list) -> None:
        """Raises ValueError naming the argument, the dimension, what it is and what it has to be.
        Takes flattened arguments."""
        known: dict = {}
        for check, value in zip(self._checks, flat):
            check(value, known)
        if self.profiles and not any(
                all(_within(known[symbol][0], profile[symbol]) for symbol in known)
                for profile in self.profiles):
            sizes = ", ".join(f"input {name!r} dimension {d} is {size}"
                              for size, name, d in known.values())
            raise ValueError(f"no shape profile takes these shapes: {sizes}; there are "
                             + "; ".join(map(self._ranges_text, self.profiles)))
        if self.conditions is not None:
            self.conditions.check(flat)

    def _ranges_text(self, profile) -> str:
        places = {dim: (argument.name, d) for argument in reversed(self.arguments)
                  for d, dim in enumerate(argument.dims) if isinstance(dim, sympy.Symbol)}
        return ", ".join(f"{places[symbol][0]!r} dimension {places[symbol][1]} {low} to {high}"
                         for symbol, (low, _, high) in profile.items() if symbol in places)

    def _check_of(self, argument: Argument):
        if argument.dtype is None:
            return lambda value, known: _same_value(argument, value)
        fixed = [None if isinstance(d, sympy.Basic) else d for d in argument.dims]
        symbolic = [(i, d) for i, d in enumerate(argument.dims) if isinstance(d, sympy.Basic)]
        name, dtype, rank = argument.name, argument.dtype, len(argument.dims)

        def check(value, known):
            if not isinstance(value, torch.Tensor) or value.dtype != dtype or (
                    value.layout != torch.strided):
                got = (type(value).__name__ if not isinstance(value, torch.Tensor) else
                       value.dtype if value.dtype != dtype else value.layout)
                raise ValueError(f"input {name!r}: got {got}, want a tensor of {dtype}")
            shape = value.shape
            if len(shape) != rank:
                raise ValueError(f"input {name!r}: got {len(shape)} dimensions, want {rank}")
            for d, want in enumerate(fixed):
                if want is not None and shape[d] != want:
                    raise ValueError(f"input {name!r} dimension {d}: got {shape[d]}, want {want}")
            for d, expr in symbolic:
                self._check_symbolic(name, d, shape[d], expr, known)
        return check

    def _check_symbolic(self, name, d, size, expr, known):
        if isinstance(expr, sympy.Symbol) and expr not in known:
            low, _, high = self.ranges[expr]
            if not _within(size, self.ranges[expr]):
                want = f"{low} to {high}" if high is not None else f"{low} or more"
                raise ValueError(f"input {name!r} dimension {d}: got {size}, want {want}")
            known[expr] = (size, name, d)
            return
        if not all(symbol in known for symbol in expr.free_symbols):
            return  # the engine itself solves for it
        want = int(expr.subs({symbol: known[symbol][0] for symbol in expr.free_symbols}))
        if size != want:
            where = " and ".join(f"{known[s][1]!r} dimension {known[s][2]}"
                                 for s in sorted(expr.free_symbols, key=str))
            raise ValueError(f"input {name!r} dimension {d}: got {size}, want {want}, as input "
                             f"{where} says")


def _within(size: int, span: Range) -> bool:
    low, _, high = span
    return size >= low and (high is None or size <= high)


def _same_value(argument: Argument, value) -> None:
    if value != argument.value or type(value) is not type(argument.value):
        raise ValueError(f"argument {argument.name!r}: got {value!r}, the program was compiled "
                         f"for {argument.value!r}")


def _plain(tree):
    """The same with tuples for every sequence."""
    if isinstance(tree, (tuple, list)):
        return tuple(_plain(item) for item in tree)
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    return tree


def _structure(tree) -> str:
    """`(x, y, k=z)` of an (args, kwargs) pair, tensors by their shapes."""
    def text(value):
        if isinstance(value, (tuple, list)):
            return "(" + ", ".join(map(text, value)) + ")"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k}: {text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, torch.Tensor):
            return f"tensor{list(value.shape)}"
        return str(value)

    args, kwargs = tree
    return "(" + ", ".join([*map(text, args), *(f"{k}={text(v)}" for k, v in kwargs.items())]) + ")"
