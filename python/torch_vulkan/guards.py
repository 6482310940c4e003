"""What a capture took for granted about sizes beside their ranges, and PyTorch checks before it
calls the graph: its guards."""

import sympy
import torch
from torch.utils._sympy import functions as sf

_REMAINDERS = (sf.Mod, sf.PythonMod, sympy.Mod)
_MOST_STEPS = 8  # of replacements inside of each other


class Guards:
    """The guards of one environment of symbols, as far as they were made by now."""

    def __init__(self, shape_env):
        self.relations = [g.expr for g in getattr(shape_env, "guards", ()) if not g.size_oblivious]
        self._simpler: dict[sympy.Expr, sympy.Expr] = {}
        for relation in self.relations:
            if isinstance(relation, sympy.Eq):
                self._learn(self.canonical(relation.lhs), self.canonical(relation.rhs))

    def _learn(self, a, b) -> None:
        simple, other = sorted((a, b), key=lambda e: (e.count_ops(), e.sort_key()))
        # A name stays: what it stands for is looked for in the inputs' sizes.
        if simple != other and not other.is_Symbol:
            self._simpler[other] = simple

    def canonical(self, expr):
        """One expression for all that the guards say are equal: "(n + 1)//2" and "n//2" where n is
        even."""
        for _ in range(_MOST_STEPS if self._simpler else 0):
            simpler = expr.xreplace(self._simpler)
            if simpler == expr:
                break
            expr = simpler
        return expr

    def conditions(self):
        """(relation, left, right) of each guard that leaves room to other sizes, as conditions of
        an engine (runtime/condition.h) name them."""
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


def guards_of(shape_env) -> Guards:
    """The guards until now; made anew where there are others."""
    count = len(getattr(shape_env, "guards", ()))
    known = getattr(shape_env, "torch_vulkan_guards", None)
    if known is None or known[0] != count:
        known = shape_env.torch_vulkan_guards = count, Guards(shape_env)
    return known[1]


def canonical(size: torch.SymInt) -> sympy.Expr:
    """The expression of a size, the same for sizes that must be equal."""
    return guards_of(size.node.shape_env).canonical(size.node.expr)
