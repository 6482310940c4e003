"""The conditions of a capture as those of an engine, which its file holds (runtime/condition.h)."""

import ast
import functools
import operator

from ._native import C

_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
               ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod}
_MOST_FACTORS = 8  # of a power: sizes of more pass 2^63
_SWAPPED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE}


class _Inexpressible(Exception):
    pass


def stored(conditions, bindings: list[dict]) -> tuple[list[tuple], list[str]]:
    """What an engine with these inputs keeps of `conditions` (conditions.Conditions).

    Returns:
        (relation, left, right, source) of each, as C.vke_with_conditions takes them; and the text
        of those that ask for sizes of these inputs and cannot be written so, or for sizes of other
        inputs, too.
    """
    shapes = {binding["name"]: binding["shape"] for binding in bindings}
    shapes = [shapes.get(name) for name in conditions.called]
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
            made += [(*parts, source) for parts in _relations(tree.body, shapes)]
        except _Inexpressible:
            lost.append(conditions.text(tree))
    return made, lost


def _relations(node, shapes) -> list[tuple]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in _relations(value, shapes)]
    if not isinstance(node, ast.Compare):
        raise _Inexpressible
    sides = [node.left, *node.comparators]
    return [_relation(type(op), left, right, shapes)
            for op, left, right in zip(node.ops, sides, sides[1:])]


def _relation(op, left, right, shapes) -> tuple:
    if op in _SWAPPED:
        op, left, right = _SWAPPED[op], right, left
    is_multiple = (op is ast.Eq and isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod)
                   and isinstance(right, ast.Constant) and right.value == 0)
    if is_multiple:
        return "multiple", _size(left.left, shapes), _size(left.right, shapes)
    sizes = _size(left, shapes), _size(right, shapes)
    if op is ast.Gt:
        return "at_least", sizes[0], sizes[1] + 1
    names = {ast.Eq: "equal", ast.NotEq: "differs", ast.GtE: "at_least"}
    if op not in names:
        raise _Inexpressible
    return names[op], *sizes


def _size(node, shapes):
    """An int or an Expr."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return 0 - _size(node.operand, shapes)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _size(node.left, shapes), _size(node.right, shapes)
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and right == 0:
            raise _Inexpressible
        return _ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent = _size(node.right, shapes)
        if type(exponent) is not int or not 1 <= exponent <= _MOST_FACTORS:
            raise _Inexpressible
        return functools.reduce(operator.mul, [_size(node.left, shapes)] * exponent)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1 and (
            node.func.id in ("max", "min")):
        function = C.expr_max if node.func.id == "max" else C.expr_min
        return functools.reduce(function, [_size(arg, shapes) for arg in node.args])
    # flat[i].size()[d]
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call) and (
            isinstance(node.value.func, ast.Attribute) and node.value.func.attr == "size"):
        place, dim = node.value.func.value.slice.value, _size(node.slice, shapes)
        return shapes[place][dim]
    raise _Inexpressible
