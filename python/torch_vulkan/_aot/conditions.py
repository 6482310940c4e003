"""What a capture found out about sizes beside their ranges: "x.shape[0] % 2 == 0", where the model
takes another path otherwise. PyTorch keeps that with an ExportedProgram, as text."""

import ast
import math
import re
import warnings

from torch.utils import _pytree as pytree

from .._torch import compat

_FUNCTIONS = {"math": math, "max": max, "min": min, "float": float, "int": int, "abs": abs,
              "round": round}
_METHODS = {"size", "stride", "storage_offset", "floor", "ceil", "trunc", "sqrt"}
_PLAIN = (ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.Call,
          ast.IfExp, ast.Subscript, ast.Attribute, ast.Name, ast.boolop, ast.operator, ast.unaryop,
          ast.cmpop, ast.expr_context)


class Conditions:
    """What the sizes of a call have to fulfil.

    Args:
        program: of torch.export.
        names: the parameters of the module's forward.
        in_spec: pytree's structure of (args, kwargs).
        called: what messages call each flattened argument.
    """

    def __init__(self, program, names: list[str], in_spec, called: list[str]):
        self.called = called
        paths = _paths(names, in_spec)
        self.trees = []
        for text in dict.fromkeys(compat.guards_of(program)):
            tree = _Places(paths).visit(ast.parse(text, mode="eval"))
            if _is_understood(tree):
                self.trees.append(tree)
            else:
                warnings.warn(f"torch_vulkan: a condition of the capture is not checked: {text}",
                              stacklevel=2)
        self.places = [_places_in(tree) for tree in self.trees]
        self._checks = [eval(compile(ast.fix_missing_locations(_as_function(tree)),  # noqa: S307
                                     "<condition>", "eval"), {"__builtins__": {}, **_FUNCTIONS})
                        for tree in self.trees]

    def check_named(self, tensors: dict) -> None:
        """As `check`, of those that ask for these arguments alone, which go by their names."""
        self.check([tensors.get(name) for name in self.called])

    def check(self, flat: list) -> None:
        """Raises ValueError naming the condition and the sizes for flattened arguments that do not
        fulfil one. None: an argument that is not known."""
        for check, tree, places in zip(self._checks, self.trees, self.places):
            if any(flat[place] is None for place in places):
                continue
            if not check(flat):
                sizes = dict.fromkeys(ast.unparse(node) for node in ast.walk(tree)
                                      if isinstance(node, ast.Subscript) and _is_call(node.value))
                got = ", ".join(f"{self._named(size)} is {eval(size, {'flat': flat})}"  # noqa: S307
                                for size in sizes)
                raise ValueError(f"{got}: the model takes another path there; it was compiled for "
                                 f"{self.text(tree)}")

    def text(self, tree: ast.AST) -> str:
        """A condition for people: arguments by their names."""
        return self._named(ast.unparse(tree))

    def _named(self, code: str) -> str:
        return _with_places(code, self.called).replace(".size()", ".shape")

    @staticmethod
    def is_arithmetic(tree: ast.AST) -> bool:
        """True for what other languages write alike: sizes, +, %, <, …"""
        return not any(isinstance(node, (ast.IfExp, ast.Div, ast.Pow))
                       or isinstance(node, ast.Call) and not ast.unparse(node).endswith(".size()")
                       for node in ast.walk(tree))

    @staticmethod
    def code(tree: ast.AST, places: list[str]) -> str:
        """A condition as code, with `places` for the flattened arguments."""
        return _with_places(ast.unparse(tree), places)


def _places_in(tree: ast.AST) -> set[int]:
    """Which flattened arguments a condition asks for."""
    return {node.slice.value for node in ast.walk(tree) if isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name) and node.value.id == "flat"}


def _with_places(code: str, places: list[str]) -> str:
    return re.sub(r"flat\[(\d+)\]", lambda found: places[int(found[1])], code)


def _as_function(tree: ast.Expression) -> ast.Expression:
    function = ast.parse("lambda flat: 0", mode="eval")
    function.body.body = tree.body
    return function


def _paths(names, in_spec) -> dict[str, int]:
    """PyTorch's text for each flattened argument → its number."""
    tree = pytree.tree_unflatten(range(in_spec.num_leaves), in_spec)
    found = {}
    for path, number in pytree.tree_flatten_with_path(tree)[0]:
        root, first, *rest = path
        rest = pytree.keystr(tuple(rest))
        name = names[first.idx] if root.idx == 0 else first.key
        found[f"L['{name}']{rest}"] = number
        if (several := re.fullmatch(r"(.+)_(\d+)", str(name))) is not None:  # forward(self, *args)
            found.setdefault(f"L['{several[1]}'][{several[2]}]{rest}", number)
    return found


class _Places(ast.NodeTransformer):
    """Puts `flat[i]` where the text says L['x'][…]."""

    def __init__(self, paths: dict[str, int]):
        self._paths = paths

    def visit(self, node):
        number = self._paths.get(ast.unparse(node)) if isinstance(
            node, (ast.Subscript, ast.Attribute)) else None
        if number is None:
            return self.generic_visit(node)
        return ast.parse(f"flat[{number}]", mode="eval").body


def _is_call(node) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)


def _is_understood(tree) -> bool:
    return all(isinstance(node, _PLAIN)
               and (not isinstance(node, ast.Name) or node.id in {"flat", *_FUNCTIONS})
               and (not isinstance(node, ast.Attribute) or node.attr in _METHODS)
               for node in ast.walk(tree))

