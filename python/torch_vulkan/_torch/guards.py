"""What a capture took for granted about sizes beside their ranges, and PyTorch checks before it
calls the graph: its guards."""

import contextlib
import contextvars

import sympy
import torch
from torch import fx
from torch.utils._sympy import functions as sf

from . import ranges

_REMAINDERS = (sf.Mod, sf.PythonMod, sympy.Mod)
_SMALLEST, _LARGEST = (sf.Min, sympy.Min), (sf.Max, sympy.Max)
_MOST_STEPS = 8  # of replacements inside of each other
_FEW_SIZES = 64
_SHOWN: contextvars.ContextVar[frozenset] = contextvars.ContextVar("shown", default=frozenset())


def _parts(guard) -> tuple:
    """What a guard says, one by one: "0 <= a" and "a <= b" of "0 <= a <= b"."""
    guard = sympy.to_nnf(guard, simplify=False)
    return guard.args if isinstance(guard, sympy.And) else (guard,)


class Guards:
    """The guards of one environment of symbols, as far as they were made by now.

    Args:
        shown: the symbols that inputs of a graph show; of two equal expressions that in these is
            the canonical one.
    """

    def __init__(self, shape_env, shown: frozenset = frozenset()):
        self._ranges = ranges.Ranges(shape_env)
        self._shown = shown
        self._numbers: dict[sympy.Expr, sympy.Expr | None] = {}
        self._names: dict[sympy.Symbol, sympy.Symbol] = {}  # of two that are equal, the one to use
        said = [relation for g in getattr(shape_env, "guards", ())
                if not g.size_oblivious for relation in _parts(g.expr)]
        more = True
        while more:  # a name less each time
            self.relations = [relation.xreplace(self._names) for relation in said]
            self._simpler: dict[sympy.Expr, sympy.Expr] = {}
            more = self._learn_relations()

    def _learn_relations(self) -> bool:
        """Learns what the relations say. Ends with True where two symbols are found equal: with one
        name for both, relations may say more."""
        for relation in self.relations:
            if isinstance(relation, sympy.Eq):
                if self._learn(*map(self._simplified, relation.args)):
                    return True
        ordered = dict.fromkeys(tuple(map(self._simplified, pair)) for pair in self._ordered())
        return any((b, a) in ordered and self._learn(a, b) for a, b in ordered)

    def _ordered(self):
        """(a, b) of each guard that says a >= b; that the smaller of a and b is b says so, too."""
        for relation, a, b in self.conditions():
            if relation == "at_least":
                yield a, b
            for one, other in ((a, b), (b, a)) if relation == "equal" else ():
                if isinstance(other, _SMALLEST):
                    yield from ((larger, one) for larger in other.args)
                elif isinstance(other, _LARGEST):
                    yield from ((one, smaller) for smaller in other.args)

    def _learn(self, a, b) -> bool:
        """Takes two expressions for one; True if both are symbols."""
        # Numbers first: -1 counts as an operation on 1.
        simple, other = sorted((a, b), key=lambda e: (
            not e.is_number, self._is_hidden(e), e.count_ops(), e.sort_key()))
        if simple != other and simple.is_Symbol and other.is_Symbol:
            name = {other: simple}
            self._names = {k: v.xreplace(name) for k, v in self._names.items()} | name
            return True
        # A name stays: what it stands for is looked for in the inputs' sizes.
        stays = other.is_number or other.is_Symbol and not self._is_hidden(other)
        if simple != other and not stays and not simple.has(other):
            self._simpler[other] = simple
        # Of n - (n + 1)//2 = 1: (n + 1)//2 is n - 1.
        for factor, term in (t.as_coeff_Mul() for t in sympy.Add.make_args(other)):
            rest = sympy.expand(term - (other - simple) / factor)
            if isinstance(term, sympy.Function) and abs(factor) == 1 and not rest.has(term):
                self._simpler.setdefault(term, rest)
                break
        return False

    def _is_hidden(self, expr) -> bool:
        """Whether inputs do not tell its value."""
        return bool(self._shown) and not expr.free_symbols <= self._shown

    def canonical(self, expr):
        """One expression for all that the guards say are equal: "(n + 1)//2" and "n//2" where n is
        even; a number where they leave but one, of a symbol in an expression, too."""
        expr = self.with_values(self._simplified(expr))
        number = self._number(expr)
        return expr if number is None else number

    def with_values(self, expr):
        """An expression with one symbol for those that must be equal, and numbers for the symbols
        that the guards leave but one."""
        expr = expr.xreplace(self._names)
        return expr.xreplace({symbol: number for symbol in expr.free_symbols
                              if (number := self._number(symbol)) is not None})

    def _simplified(self, expr):
        expr = expr.xreplace(self._names)
        for _ in range(_MOST_STEPS if self._simpler else 0):
            simpler = expr.xreplace(self._simpler)
            if simpler == expr:
                break
            expr = simpler
        return expr

    def _number(self, expr):
        """The number that an expression always is; None if it may be several."""
        if expr.is_number:
            return None
        if expr not in self._numbers:
            self._numbers[expr] = self._only_size(expr) if expr.is_Symbol else (
                self._ranges.only_value(expr))
        return self._numbers[expr]

    def _only_size(self, symbol):
        """The size that the guards leave a symbol of few, tried one by one: 11 of 10 and 11 where
        it is odd."""
        if self._ranges.are_given:
            return None
        low, high = self.narrowed(symbol, *self._ranges.bounds(symbol))
        if low is None or high is None or high - low >= _FEW_SIZES:
            return None
        relations = [r for r in self.relations if r.free_symbols == {symbol}]
        left = [size for size in map(sympy.Integer, range(low, high + 1))
                if all(r.xreplace({symbol: size}) != sympy.false for r in relations)]
        return left[0] if len(left) == 1 else None

    def conditions(self):
        """(relation, left, right) of each guard that leaves room to other sizes, as conditions of
        an engine (runtime/base/condition.h) name them."""
        for guard in self.relations:
            a, b = guard.args if isinstance(guard, sympy.core.relational.Relational) else (0, 0)
            if isinstance(guard, sympy.Eq):
                if b == 0 and isinstance(a, _REMAINDERS):
                    yield "multiple", *a.args
                else:
                    yield "equal", a, b
            elif isinstance(guard, sympy.Ge):
                yield "at_least", a, b
            elif isinstance(guard, sympy.Gt):
                yield "at_least", a, b + 1
            elif isinstance(guard, sympy.Le):
                yield "at_least", b, a
            elif isinstance(guard, sympy.Lt):
                yield "at_least", b, a + 1

    def narrowed(self, symbol, low: int | None, high: int | None) -> tuple[int | None, int | None]:
        """Bounds of a symbol (None: none) and of those equal to it, and what the guards say of it
        alone: PyTorch's own ranges hold nothing of "0 <= a and a <= b"."""
        for least, most in (self._ranges.bounds(s) for s, name in self._names.items()
                            if name == symbol):
            low = max((bound for bound in (low, least) if bound is not None), default=None)
            high = min((bound for bound in (high, most) if bound is not None), default=None)
        for relation, a, b in self.conditions():
            if relation == "at_least" and a == symbol and b.is_Integer:
                low = int(b) if low is None else max(low, int(b))
            elif relation == "at_least" and b == symbol and a.is_Integer:
                high = int(a) if high is None else min(high, int(a))
        while low is not None and sympy.Ne(symbol, low) in self.relations:
            low += 1
        return low, high


@contextlib.contextmanager
def of_graph(graph: fx.Graph):
    """A context in which `canonical` prefers what the inputs of the graph show: a backward graph
    has not all of the sizes that guards name."""
    shown = set()
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
        shown.update(size.node.expr for size in sizes
                     if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol)
    token = _SHOWN.set(frozenset(shown))
    try:
        yield
    finally:
        _SHOWN.reset(token)


def guards_of(shape_env) -> Guards:
    """The guards until now; made anew where there are others, other ranges or another graph."""
    key = len(getattr(shape_env, "guards", ())), ranges.given(), _SHOWN.get()
    known = getattr(shape_env, "torch_vulkan_guards", None)
    if known is None or known[0] != key:
        known = shape_env.torch_vulkan_guards = key, Guards(shape_env, _SHOWN.get())
    return known[1]


def canonical(size: torch.SymInt) -> sympy.Expr:
    """The expression of a size, the same for sizes that must be equal."""
    return guards_of(size.node.shape_env).canonical(size.node.expr)
