"""The conditions of a capture as those of an engine, which its file holds
(runtime/base/condition.h)."""

import ast
import functools
import operator
from typing import NamedTuple

from .._native import C

_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
               ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod}
_MOST_FACTORS = 8  # of a power: that of a sum has a term for each choice of its terms
_TOO_MUCH = 2**63 - 1  # what Expr.bounds gives for more than 64 bits hold, too
_LARGEST = 2**31 - 1  # what is taken for a size's largest where it has no bound
_SWAPPED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE}


class _Inexpressible(Exception):
    pass


class _Sizes(NamedTuple):
    shapes: list  # of each flattened argument; None: no input
    ranges: list[tuple[int, int]]  # of each symbol


def stored(conditions, bindings: list[dict], symbols: list[dict]) -> tuple[list[tuple], list[str]]:
    """What an engine with these inputs and symbols keeps of `conditions` (conditions.Conditions).

    Returns:
        (relation, left, right, source) of each, as C.vke_with_conditions takes them; and the text
        of those that ask for sizes of these inputs and cannot be written so, or for sizes of other
        inputs, too. Powers that may pass 64 bits are not: Python's numbers have no end.
    """
    shapes = {binding["name"]: binding["shape"] for binding in bindings}
    shapes = [shapes.get(name) for name in conditions.called]
    ranges = [(s["min"], _LARGEST if s["max"] is None else s["max"]) for s in symbols]
    sizes = _Sizes(shapes, ranges)
    made, lost = [], []
    for tree, places in zip(conditions.trees, conditions.places):
        own = [shapes[place] is not None for place in places]
        if not any(own):
            continue
        if not all(own):
            lost.append(conditions.text(tree))
            continue
        try:
            source = f"the model (compiled for {conditions.text(tree)})"
            made += [(*parts, source) for parts in _relations(tree.body, sizes)]
        except (_Inexpressible, ValueError):  # of Expr: a coefficient passes 64 bits
            lost.append(conditions.text(tree))
    return made, lost


def _relations(node, known) -> list[tuple]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in _relations(value, known)]
    if not isinstance(node, ast.Compare):
        raise _Inexpressible
    sides = [node.left, *node.comparators]
    return [_relation(type(op), left, right, known)
            for op, left, right in zip(node.ops, sides, sides[1:])]


def _relation(op, left, right, known) -> tuple:
    if op in _SWAPPED:
        op, left, right = _SWAPPED[op], right, left
    is_multiple = (op is ast.Eq and isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod)
                   and isinstance(right, ast.Constant) and right.value == 0)
    if is_multiple:
        return "multiple", _size(left.left, known), _size(left.right, known)
    sizes = _size(left, known), _size(right, known)
    if op is ast.Gt:
        return "at_least", sizes[0], sizes[1] + 1
    names = {ast.Eq: "equal", ast.NotEq: "differs", ast.GtE: "at_least"}
    if op not in names:
        raise _Inexpressible
    return names[op], *sizes


def _size(node, known):
    """An int or an Expr."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _fitting(node.value, known)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return 0 - _size(node.operand, known)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _size(node.left, known), _size(node.right, known)
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and right == 0:
            raise _Inexpressible
        value = _ARITHMETIC[type(node.op)](left, right)
        return _fitting(value, known) if _has_power(node) else value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent = _size(node.right, known)
        if type(exponent) is not int or not 1 <= exponent <= _MOST_FACTORS:
            raise _Inexpressible
        factors = [_size(node.left, known)] * exponent
        return _fitting(functools.reduce(operator.mul, factors), known)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1 and (
            node.func.id in ("max", "min")):
        function = C.expr_max if node.func.id == "max" else C.expr_min
        return functools.reduce(function, [_size(arg, known) for arg in node.args])
    # flat[i].size()[d]
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call) and (
            isinstance(node.value.func, ast.Attribute) and node.value.func.attr == "size"):
        place, dim = node.value.func.value.slice.value, _size(node.slice, known)
        return known.shapes[place][dim]
    raise _Inexpressible


def _has_power(node) -> bool:
    return any(isinstance(part, ast.Pow) for part in ast.walk(node))


def _fitting(value, known):
    """The value, which 64 bits hold whatever the sizes: one that cannot be computed fulfils
    nothing (Condition::holds)."""
    bounds = (value, value) if type(value) is int else value.bounds(known.ranges)
    if max(-bounds[0], bounds[1]) >= _TOO_MUCH:
        raise _Inexpressible
    return value
