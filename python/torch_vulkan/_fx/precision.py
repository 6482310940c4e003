"""float32 graphs in 16-bit storage: which nodes, and the casts between them.

Kernels compute in float32 whatever they store, so the rule can be simple: a node that reads a float
tensor is stored in 16 bits, unless it is excluded. Inputs and outputs of the engine stay float32.
"""

import re
from dataclasses import dataclass

from torch import fx

from .._native import C
from .fx_nodes import module_path_of

_FLOAT16_MAX = 65504.0


@dataclass
class Precision:
    """What to lower.

    Attributes:
        dtype: C.DType.float16 or bfloat16.
        excluded_nodes: regular expressions over node names and module paths.
        excluded_ops: operators, with or without the overload.
    """

    dtype: object
    excluded_nodes: tuple[str, ...] = ()
    excluded_ops: tuple[str, ...] = ()

    def bind(self, importer) -> "_Lowering":
        """The same for one graph that is being imported."""
        return _Lowering(self, importer)


class _Lowering:
    def __init__(self, rules: Precision, importer):
        self._rules = rules
        self._importer = importer
        self._casts: dict[tuple[int, object], int] = {}
        self._wide: set[int] = set()  # float32 values that were not computed: masks are among them

    def add_input(self, value: int) -> None:
        """Says that `value` is an input of the engine."""
        self._wide.add(value)

    def _is_kept(self, node: fx.Node, op: str) -> bool:
        names = (node.name, module_path_of(node))
        return (C.stays_float32(op)
                or not {op, op.split(".")[0]}.isdisjoint(self._rules.excluded_ops)
                or any(re.search(p, n) for p in self._rules.excluded_nodes for n in names))

    def _dtype(self, value: int):
        return self._importer.graph.value_dtype(value)

    def add(self, node: fx.Node, op: str, args: list, outputs: list) -> list:
        """Adds `node` with its operands cast to what it is stored in."""
        floats = (C.DType.float32, self._rules.dtype)
        operands = [v for _, kind, value in args if kind != "attr"
                    for v in (value if kind == "tensors" else [value]) if v is not None]
        reads_float = any(self._dtype(v) in floats for v in operands)
        want = self._rules.dtype if reads_float and not self._is_kept(node, op) else C.DType.float32
        args = [arg if C.argument_stays_float32(op, arg[0]) else self._cast_argument(arg, want)
                for arg in args]
        outputs = [o if o is None or o[0] != C.DType.float32 else (want, o[1]) for o in outputs]
        ids = self._importer.append(op, node.name, args, outputs, like=node)
        if not reads_float:
            self._wide.update(i for i in ids if i is not None)
        return ids

    def at_output(self, value: int) -> int:
        """The value as the engine returns it."""
        return self._cast(value, C.DType.float32)

    def _cast_argument(self, arg, want):
        name, kind, value = arg
        if kind == "tensor":
            return name, kind, self._cast(value, want)
        if kind == "tensors":
            return name, kind, [self._cast(v, want) for v in value]
        is_float32 = isinstance(value, C.DType) and value == C.DType.float32
        return name, kind, want if is_float32 else value

    def _cast(self, value, want):
        floats = (C.DType.float32, self._rules.dtype)
        if value is None or self._dtype(value) == want or self._dtype(value) not in floats:
            return value
        key = (value, want)
        if key not in self._casts:
            self._casts[key] = self._add_cast(value, want)
        return self._casts[key]

    def _add_cast(self, value, want) -> int:
        shape = self._importer.graph.value_shape(value)
        suffix = f"v{value}_{want.name}"
        if want == C.DType.float16 and value in self._wide:
            # Masks hold float32's lowest number: it must not become an infinity.
            args = [("self", "tensor", value), ("min", "attr", -_FLOAT16_MAX),
                    ("max", "attr", _FLOAT16_MAX)]
            value = self._importer.append("aten::clamp", f"clamp_{suffix}", args,
                                          [(C.DType.float32, shape)])[0]
        args = [("self", "tensor", value), ("dtype", "attr", want), ("layout", "attr", None),
                ("device", "attr", None), ("pin_memory", "attr", None),
                ("non_blocking", "attr", False), ("memory_format", "attr", None)]
        return self._importer.append("aten::_to_copy", f"cast_{suffix}", args, [(want, shape)])[0]
