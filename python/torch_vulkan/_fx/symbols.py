"""torch's symbolic sizes as the compiler's expressions."""

import math

import sympy
import torch
from torch.utils._sympy import functions as sf

from .._native import C
from .._torch.guards import canonical, guards_of
from .._torch.ranges import Ranges

# What is added to a number on its way to an engine, as a size, where it may be negative; the
# magnitude of such numbers is below it.
BIAS = 2**62


class Inexpressible(Exception):
    """A size that the compiler's expressions cannot hold; the node that needs it stays native."""


def is_symbolic_scalar(value) -> bool:
    """True for what a graph computes about sizes: it is no tensor and no kernel makes it."""
    return isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat, int, bool, float))


class SymbolTable:
    """The symbols of one graph, added to it as they are met."""

    def __init__(self, graph):
        self._graph = graph
        self._known: dict[sympy.Symbol, object] = {}
        self._ranges: list[tuple[int, int]] = []
        self._may_be_negative: dict[sympy.Symbol, bool] = {}
        self._environment = None

    def ranges(self, profile: dict | None) -> list[tuple[str, int, int, int | None]]:
        """(name, low, hint, high) of all symbols in a shape profile; None: in all.
        """
        return [(str(symbol), *self._range(symbol, self._environment, profile))
                for symbol in self._known]

    def carry(self, graph) -> list[tuple[sympy.Symbol, int]]:
        """Adds inputs to a graph of these symbols for those that the shapes of the others do not
        determine. Returns (symbol, bias): each is, with the bias added, the size of an empty one.
        """
        by_name = {str(symbol): symbol for symbol in self._known}
        carried = []
        for name, number in graph.unbound_symbols():
            symbol = by_name[name]
            bias = BIAS if self._may_be_negative[symbol] else 0
            graph.add_input(f"number_{name}", C.DType.uint8, [number + bias, 0])
            carried.append((symbol, bias))
        return carried

    def dim(self, value):
        """An int or an Expr for an int or SymInt."""
        if isinstance(value, torch.SymInt):
            if value.node.is_constant():
                return int(value)
            self._environment = value.node.shape_env
            return self._expr(canonical(value), value.node.shape_env)
        return int(value)

    def shape(self, dims) -> list:
        """The same for each of a tensor's sizes or strides."""
        return [self.dim(dim) for dim in dims]

    def add_conditions(self) -> None:
        """Tells the graph what the guards say of its symbols."""
        if self._environment is None:
            return
        # Ahead of time sizes of 0 and 1 run the graph of larger ones, which may say "at least 2".
        are_given = Ranges(self._environment).are_given
        guards = guards_of(self._environment)
        for relation, *sides in guards.conditions():
            sides = [guards.with_values(e) for e in sides]  # as in the shapes of the graph
            if sides[0] == sides[1]:
                continue
            if are_given and relation == "at_least" and any(e.is_number for e in sides):
                continue
            if not set().union(*(e.free_symbols for e in sides)) <= self._known.keys():
                continue
            try:
                left, right = (self._expr(e, self._environment) for e in sides)
            except Inexpressible:
                continue
            self._graph.add_condition(relation, left, right, "the captured graph")

    @staticmethod
    def _range(symbol, shape_env, profile=None) -> tuple[int, int, int | None]:
        ranges = Ranges(shape_env, profile)
        low, high = ranges.bounds(symbol)
        if not ranges.are_given:
            low, high = guards_of(shape_env).narrowed(symbol, low, high)
        hint = ranges.usual(symbol)
        if hint is None:
            raise Inexpressible(f"size {symbol} is known only when the graph runs")
        # A call with a number beyond is refused where it is carried.
        return 1 - BIAS if low is None else low, max(1 - BIAS, min(hint, BIAS - 1)), high

    def _symbol(self, symbol, shape_env):
        if symbol not in self._known:
            low, hint, high = self._range(symbol, shape_env)
            self._known[symbol] = self._graph.add_symbol(str(symbol), low, hint, high)
            self._ranges.append((low, 2**63 - 1 if high is None else high))
            self._may_be_negative[symbol] = low < 0
        return self._known[symbol]

    def _larger(self, a, b, smaller: bool):
        """The larger (or smaller) of two sizes; one of them where the ranges tell which."""
        difference = a - b
        low, high = (difference, difference) if isinstance(difference, int) else (
            difference.bounds(self._ranges))
        if low >= 0 or high <= 0:
            return a if (low >= 0) != smaller else b
        return (C.expr_min if smaller else C.expr_max)(a, b)

    def _expr(self, e, env):
        def sub(x):
            return self._expr(x, env)

        if isinstance(e, sympy.Symbol):
            return self._symbol(e, env)
        if isinstance(e, (sympy.Integer, int)):
            if abs(int(e)) >= 2**62:
                raise Inexpressible(f"the number {e} passes 64 bits")
            return int(e)
        if isinstance(e, sympy.Add):
            return sum((sub(x) for x in e.args[1:]), start=sub(e.args[0]))
        if isinstance(e, sympy.Mul):
            return math.prod((sub(x) for x in e.args[1:]), start=sub(e.args[0]))
        if isinstance(e, (sympy.Pow, sf.PowByNatural)) and e.args[1].is_Integer and e.args[1] >= 0:
            base = sub(e.args[0])
            return math.prod([base] * int(e.args[1]), start=1)
        if isinstance(e, sf.ModularIndexing):
            return (sub(e.args[0]) // sub(e.args[1])) % sub(e.args[2])
        if isinstance(e, sf.FloorDiv):  # CleanDiv is one
            return sub(e.args[0]) // sub(e.args[1])
        if isinstance(e, (sf.Mod, sf.PythonMod, sympy.Mod)):
            return sub(e.args[0]) % sub(e.args[1])
        if isinstance(e, sf.CeilDiv):
            return (sub(e.args[0]) + sub(e.args[1]) - 1) // sub(e.args[1])
        for kinds, function in (((sf.Max, sympy.Max), C.expr_max),
                                ((sf.Min, sympy.Min), C.expr_min)):
            if isinstance(e, kinds):
                result = sub(e.args[0])
                for x in e.args[1:]:
                    result = self._larger(result, sub(x), function is C.expr_min)
                return result
        scaled = _scaled(e)
        if scaled is not None:
            numerator, size, denominator = scaled
            return sub(size) * numerator // denominator
        raise Inexpressible(f"size {e} is not a sum, product, quotient, remainder, max or min")


def _scaled(e):
    """(numerator, size, denominator) where `e` is a size times a float factor, rounded down, that
    integers compute exactly: factors like 1.5, whose fraction is short. Else None."""
    if not isinstance(e, (sf.TruncToInt, sf.FloorToInt)) or not isinstance(e.args[0], sympy.Mul):
        return None
    numbers = [x for x in e.args[0].args if x.is_Number]
    sizes = [x for x in e.args[0].args if isinstance(x, sf.ToFloat)]
    if len(numbers) != 1 or len(sizes) != 1 or len(e.args[0].args) != 2:
        return None
    numerator, denominator = float(numbers[0]).as_integer_ratio()
    if not 0 < numerator < 2**12 or denominator > 2**12 or not sizes[0].args[0].is_nonnegative:
        return None
    return numerator, sizes[0].args[0], denominator
