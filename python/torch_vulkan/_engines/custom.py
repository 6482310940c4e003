"""Custom operators: tv.custom_op and tv.load_library."""

import collections
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import torch
from torch import fx

from .._base.dtypes import KINDS
from .._native import C

GRID = "tv_grid"  # csrc/codegen/custom_op.h
_ENGINES = 32  # of one operator called without torch.compile, by shapes
# Users' kernels have no float64.
_KINDS = {dtype: kind for dtype, kind in KINDS.items() if dtype != torch.float64}


@dataclass
class _Operator:
    """A declared operator."""

    name: str
    schema: torch.FunctionSchema
    inputs: list[str]
    outputs: list[str]
    local_size: tuple[int, int, int]
    grid: Callable | None
    shapes: Callable
    library: torch.library.Library | None = None
    engines: collections.OrderedDict = field(default_factory=collections.OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def filled(self, args, kwargs) -> list:
        """Every argument in the order of the schema, defaults included."""
        given = dict(zip((a.name for a in self.schema.arguments), args)) | kwargs
        return [given.get(a.name, a.default_value) for a in self.schema.arguments]

    def results(self, *args) -> tuple[torch.Tensor, ...]:
        """Tensors with the results' shapes and dtypes, without values."""
        made = self.shapes(*args)
        made = [made] if isinstance(made, torch.Tensor) or len(self.outputs) == 1 else [*made]
        first = next((a for a in args if isinstance(a, torch.Tensor)), None)
        made = [m if isinstance(m, torch.Tensor) else first.new_empty(m) for m in made]
        if len(made) != len(self.outputs):
            raise ValueError(f"[{self.name}] the shape function gave {len(made)} results, the "
                             f"schema has {len(self.outputs)}")
        return tuple(made)

    def groups(self, *args) -> list:
        """Numbers of workgroups; a single one: a flat grid."""
        if self.grid is None:
            numel = prod(self.results(*args)[0].shape)
            return [(numel + prod(self.local_size) - 1) // prod(self.local_size)]
        counts = self.grid(*args)
        counts = [*counts] if isinstance(counts, Sequence) else [counts]
        if not 1 <= len(counts) <= 3:
            raise ValueError(f"[{self.name}] the grid has {len(counts)} numbers, want 1 to 3")
        return counts


_operators: dict[str, _Operator] = {}


def custom_op(name: str, schema: str, shader: str, grid: Callable | None, shapes: Callable, *,
              eager: Callable | None = None, local_size: int | Sequence[int] = 64,
              dtypes: Mapping[str, torch.dtype] | None = None):
    """Declares a custom operator with a GLSL kernel; docs/custom_operators.md has an example.

    Args:
        name: "images::grey".
        schema: as for torch.library, "(Tensor x, float gain) -> Tensor". Arguments are Tensor, int,
            float and bool, results are Tensor.
        shader: a GLSL `main`. Every tensor `x` has `x_load(i)` and `x_store(i, value)` there.
            Results have their names from the schema, or else `out`, or `out0`, `out1`, ….
        grid: a function from the operator's arguments to the number of workgroups (tv_group() in
            the shader), or to two or three numbers (gl_WorkGroupID). None: one invocation for each
            element of the first result.
        shapes: a function from the operator's arguments to each result: a tensor of its shape and
            dtype, such as torch.empty_like(x), or its sizes if its dtype is that of the first
            tensor. `grid` and `shapes` may receive symbolic sizes, and tensors without values.
        eager: a Python function that computes the results outside of engines. None: the shader
            does, in an engine of its own.
        local_size: invocations of a workgroup, along x or along x, y and z.
        dtypes: of tensors that are not float32, if the shader compiles only for these.

    Returns:
        torch.ops.<name>. Eager calls, tracing and backend="vulkan" know it from now on. It has no
        gradient until torch.library.register_autograd gives it one.

    Raises:
        ValueError: an invalid schema, a name that is taken, or a shader that does not compile; the
            message then contains the compiler's log with the shader's own line numbers.
    """
    operator = _declared(name, schema, grid, shapes, local_size)
    kinds = {a.name: str(a.type) for a in operator.schema.arguments}
    known = {*operator.inputs, *operator.outputs}
    for tensor, dtype in (dtypes or {}).items():
        if tensor not in known or dtype not in _KINDS:
            raise ValueError(f"[{name}] dtypes: got {tensor!r}: {dtype}, want dtypes of engines "
                             f"for {sorted(known)}")
    C.add_custom_op(name, operator.inputs, operator.outputs,
                    [a for a, kind in kinds.items() if kind in ("int", "bool")],
                    [a for a, kind in kinds.items() if kind == "float"], shader,
                    operator.local_size,
                    {tensor: _KINDS[dtype] for tensor, dtype in (dtypes or {}).items()})
    namespace, _, base = name.partition("::")
    operator.library = torch.library.Library(namespace, "FRAGMENT")
    operator.library.define(f"{base}{schema}")
    single = len(operator.outputs) == 1

    def of_shapes(*args, **kwargs):
        made = operator.results(*operator.filled(args, kwargs))
        return made[0] if single else made

    def run(*args, **kwargs):
        filled = operator.filled(args, kwargs)
        return eager(*filled) if eager is not None else _run_shader(operator, filled)

    operator.library.impl(base, run, "CompositeExplicitAutograd")
    torch.library.register_fake(name, of_shapes, lib=operator.library)
    _operators[name] = operator
    return getattr(getattr(torch.ops, namespace), base)


def load_library(path: str | os.PathLike) -> list[str]:
    """Loads a shared library of converters written in C++ (docs/custom_operators.md). It is code
    that runs in this process: load only what you trust.

    Returns:
        Names of the operators that it added.

    Raises:
        ValueError: the file cannot be loaded, or adds an operator that has a converter already.
    """
    return C.load_user_library(os.fspath(path))


def grid_of(node: fx.Node) -> list | None:
    """The grid of a captured call of a custom operator; None for any other node."""
    if not _operators or not isinstance(node.target, torch._ops.OpOverload):
        return None
    operator = _operators.get(node.target._schema.name)
    if operator is None:
        return None
    values = operator.filled(node.args, node.kwargs)
    return operator.groups(*(v.meta["val"] if isinstance(v, fx.Node) else v for v in values))


def _declared(name, schema, grid, shapes, local_size) -> _Operator:
    namespace, colons, base = name.partition("::")
    if not (colons and namespace.isidentifier() and base.isidentifier()):
        raise ValueError(f"custom_op: got name {name!r}, want one like 'images::grey'")
    if name in _operators or hasattr(getattr(torch.ops, namespace), base):
        raise ValueError(f"[{name}] there is an operator of this name already")
    try:
        parsed = torch._C.parse_schema(f"{name}{schema}")
    except RuntimeError as error:
        raise ValueError(f"[{name}] the schema {schema!r} is not one: {error}") from None
    for argument in parsed.arguments:
        if str(argument.type) not in ("Tensor", "int", "float", "bool") or argument.alias_info:
            raise ValueError(f"[{name}] argument {argument.name!r}: got {argument.type}, want "
                             "Tensor, int, float or bool, none of them changed in place")
    if not parsed.returns or any(str(r.type) != "Tensor" or r.alias_info for r in parsed.returns):
        raise ValueError(f"[{name}] the schema returns {schema.rpartition('->')[2].strip()!r}, "
                         "want new Tensors")
    inputs = [a.name for a in parsed.arguments if str(a.type) == "Tensor"]
    if not inputs:
        raise ValueError(f"[{name}] the schema has no Tensor among its arguments")
    count = len(parsed.returns)
    outputs = [r.name or ("out" if count == 1 else f"out{i}") for i, r in enumerate(parsed.returns)]
    names = [*(a.name for a in parsed.arguments), *outputs]
    if len(set(names)) < len(names):
        raise ValueError(f"[{name}] a result and an argument have one name: {names}")
    sizes = (local_size,) if isinstance(local_size, int) else tuple(local_size)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, int) and n > 0 for n in sizes) or (
            prod(sizes) > 1024):
        raise ValueError(f"[{name}] local_size: got {local_size!r}, want one to three numbers with "
                         "a product up to 1024 (128 run everywhere)")
    return _Operator(name, parsed, inputs, outputs, (*sizes, 1, 1)[:3], grid, shapes)


def _run_shader(operator: _Operator, args):
    """The eager call: an engine of this one operator, kept for each combination of shapes."""
    key = tuple((a.shape, a.dtype) if isinstance(a, torch.Tensor) else (type(a), a) for a in args)
    with operator.lock:
        engine = operator.engines.get(key)
        if engine is None:
            engine = operator.engines[key] = _engine_of(operator, args)
            if len(operator.engines) > _ENGINES:
                operator.engines.popitem(last=False)
        operator.engines.move_to_end(key)
    given = dict(zip((a.name for a in operator.schema.arguments), args))
    results = engine.run({name: given[name].detach() for name in operator.inputs})
    device = given[operator.inputs[0]].device
    made = tuple(results[name].to(device) for name in operator.outputs)
    return made[0] if len(made) == 1 else made


def _engine_of(operator: _Operator, args):
    """Raises ValueError with the reason if engines do not take such arguments."""
    from .._base.settings import Settings
    from .engine import Engine

    graph, arguments = C.Graph.named(operator.name), []
    for argument, value in zip(operator.schema.arguments, args, strict=True):
        if isinstance(value, torch.Tensor):
            kind = _KINDS.get(value.dtype, C.DType.other)
            arguments.append((argument.name, "tensor",
                              graph.add_input(argument.name, kind, [*value.shape])))
        else:
            arguments.append((argument.name, "attr", value))
    arguments.append((GRID, "attr", operator.groups(*args)))
    results = [(_KINDS.get(r.dtype, C.DType.other), [*r.shape]) for r in operator.results(*args)]
    made = graph.add_node(operator.name, "node", arguments, results)
    graph.set_outputs([(value, name, None) for value, name in zip(made, operator.outputs)])
    settings, profile = Settings(), C.device_profile("")
    compiler = settings.compiler_json()
    plan = C.plan(graph, compiler, profile, whole=True)
    for _, reason, _ in plan.native:
        raise ValueError(f"[{operator.name}] {reason}")
    return Engine(C.build(plan, 0, None, settings.cache_json()))
