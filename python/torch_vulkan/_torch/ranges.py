"""Which sizes the symbols of a captured graph stand for, until they are symbols of a Graph.

In the Graph a range belongs to its symbol. On the way there it is a context variable, for one
reason: guards (`_torch/guards.py`) read it whenever two sizes are compared, and what compares sizes
(`same` in `_torch/strides.py`, in most modules of `_fx/`) has two numbers and nothing to hold an
argument: it would go through every function between a program's signature and these comparisons.
`compiled_for` is entered only where a signature is known, around import and build. Under
torch.compile nothing is given, and the ranges are those that the capture found out.
"""

import contextlib
import contextvars
from dataclasses import dataclass, field

import sympy
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

Range = tuple[int, int, int | None]  # min, opt, max (None: no upper bound)


@dataclass(frozen=True)
class Sizes:
    """What a user said which sizes a program takes.

    Attributes:
        ranges: of each symbol.
        profiles: narrower ranges, of which each gets an engine of its own.
    """

    ranges: dict[sympy.Symbol, Range] = field(default_factory=dict)
    profiles: list[dict[sympy.Symbol, Range]] = field(default_factory=list)


_NOTHING = Sizes()
_SIZES: contextvars.ContextVar[Sizes] = contextvars.ContextVar("sizes")


@contextlib.contextmanager
def compiled_for(sizes: Sizes):
    """A context in which a graph is compiled for these sizes."""
    token = _SIZES.set(sizes)
    try:
        yield
    finally:
        _SIZES.reset(token)


def given() -> Sizes:
    """Those of the context; nothing outside of one."""
    return _SIZES.get(_NOTHING)


class Ranges:
    """The sizes that the symbols of an environment take. What the user said goes before what the
    capture found out, which holds neither sizes below 2 nor the size to choose kernels for.

    Args:
        profile: narrower than what the context says.
    """

    def __init__(self, shape_env, profile: dict[sympy.Symbol, Range] | None = None):
        self._environment = shape_env
        self._given = {**given().ranges, **(profile or {})}

    @property
    def are_given(self) -> bool:
        """Whether the user said any."""
        return bool(self._given)

    def usual(self, symbol: sympy.Symbol) -> int | None:
        """The size to choose kernels for: what the user said, else the size that a symbol had when
        it was captured; None for one that depends on data."""
        if symbol in self._given:
            return self._given[symbol][1]
        # Its name before torch 2.11 is deprecated since.
        values = getattr(self._environment, "backed_var_to_val", None)
        if values is None:
            values = self._environment.var_to_val
        return int(values[symbol]) if symbol in values else None

    def bounds(self, symbol: sympy.Symbol) -> tuple[int | None, int | None]:
        """None: no bound. A number that a function takes has no lower one, unless the capture found
        out that it is not negative."""
        if symbol in self._given:
            low, _, high = self._given[symbol]
            return low, high
        bounds = self._environment.var_to_range.get(symbol)
        if bounds is None:
            return None, None
        low = _finite(bounds.lower)
        if (low is None or low < 0) and self._is_known(symbol >= 0):
            low = 0
        return low, _finite(bounds.upper)

    def only_value(self, expr: sympy.Expr) -> sympy.Expr | None:
        """The number that an expression of symbols is for all sizes; None where there is none, or
        none is found."""
        usual = {symbol: self.usual(symbol) for symbol in expr.free_symbols}
        if None in usual.values():
            return None
        number = expr.xreplace(usual)
        if not number.is_Integer:
            return None
        if not self.are_given:
            return number if self._is_known(sympy.Eq(expr, number)) else None
        bounds = bound_sympy(expr, {symbol: self._values(symbol) for symbol in usual})
        return number if bounds.is_singleton() else None

    def _is_known(self, relation) -> bool:
        return self._environment._maybe_evaluate_static(relation) is sympy.true

    def _values(self, symbol: sympy.Symbol) -> ValueRanges:
        low, high = self.bounds(symbol)
        return ValueRanges(-int_oo if low is None else low, int_oo if high is None else high)


def _finite(bound) -> int | None:
    try:
        value = int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    # torch writes "no bound" as the largest index, less one where it divides.
    return value if abs(value) < 2**62 else None
