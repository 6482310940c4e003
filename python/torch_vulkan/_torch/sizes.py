"""Sizes as nodes of a captured graph."""

import operator

import sympy
import torch
from torch import fx
from torch.utils._sympy import functions as sf

aten = torch.ops.aten


class Sizes:
    """Makes nodes that compute sizes from the graph's inputs alone."""

    def __init__(self, graph: fx.Graph):
        self._graph = graph
        self._made: dict[sympy.Expr, fx.Node] = {}
        self._tensors, self._shown = [], []
        self._last = None
        for node in graph.nodes:
            if node.op != "placeholder":
                break
            self._last = node
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self._made.setdefault(value.node.expr, node)
            elif isinstance(value, torch.Tensor):
                self._tensors.append(node)
            sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
            self._shown += [size.node.expr for size in sizes if isinstance(size, torch.SymInt)]

    def make(self, value: torch.SymInt):
        """A node (or int) for `value`; None if it cannot be computed from the inputs."""
        return self._of(value.node.expr)

    def make_symbol(self, symbol: sympy.Symbol):
        """A node for one symbol; None if the inputs do not tell it."""
        node = self._of(symbol)
        if node is None:
            self._made[symbol] = node = self._solved(symbol)
        return node

    def _solved(self, symbol):
        """A symbol that inputs show in sums alone: n of (n + 1)//2 and n - (n + 1)//2, the sizes
        of two halves."""
        for total in self._shown:
            factor = total.coeff(symbol)
            if factor in (1, -1):
                pair = self._of(total), self._of(total - factor * symbol)
                node = self._fold(operator.sub, pair[::factor])
                if node is not None:
                    return node
        return None

    def _of(self, e):
        if isinstance(e, (sympy.Integer, int)):
            return int(e)
        if e in self._made:
            return self._made[e]
        node = self._dimension(e) or self._combined(e)
        if node is not None:
            self._made[e] = node
        return node

    def _call(self, target, args, value):
        with self._graph.inserting_after(self._last):
            node = self._graph.call_function(target, args)
        node.meta["val"] = value
        self._last = node
        return node

    def _dimension(self, e):
        for tensor in self._tensors:
            value = tensor.meta["val"]
            for d, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and size.node.expr == e:
                    return self._call(aten.sym_size.int, (tensor, d), size)
        return None

    def _combined(self, e):
        rules = ((sympy.Add, operator.add), (sympy.Mul, operator.mul),
                 ((sf.Max, sympy.Max), torch.sym_max), ((sf.Min, sympy.Min), torch.sym_min),
                 (sf.FloorDiv, operator.floordiv), ((sf.Mod, sf.PythonMod), operator.mod))
        for kind, function in rules:
            if isinstance(e, kind):
                return self._fold(function, [self._of(a) for a in e.args])
        if isinstance(e, (sympy.Pow, sf.PowByNatural)) and e.args[1].is_Integer and e.args[1] > 0:
            return self._fold(operator.mul, [self._of(e.args[0])] * int(e.args[1]))
        return None

    def _fold(self, function, parts):
        if any(part is None for part in parts):
            return None
        total = parts[0]
        for part in parts[1:]:
            value = function(*(p.meta["val"] if isinstance(p, fx.Node) else p
                               for p in (total, part)))
            total = self._call(function, (total, part), value)
        return total
