"""Small graphs of random operators of the registry, run by eager and through the compiler.

Eager computes each value in its own type and in float64 beside it. Where both are far apart an
operator magnifies roundings, and is not taken: what differs then is wrong. An operator that jumps
(floor, a comparison, a position) is given only values that hold no rounding. Graphs of 16-bit
floats are compared with float64: engines keep float32 between operators, eager rounds after each.
"""

import functools
import warnings
from dataclasses import dataclass, field
from operator import getitem

import torch
from random_arguments import Chooser, Ref, draw_arguments
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_vulkan as tv
from torch_vulkan._base.raw_bytes import raw_bytes
from torch_vulkan._base.settings import Settings
from torch_vulkan._dynamo.backend import compile_graph_module

DTYPES = (torch.float32, torch.int64, torch.bool, torch.int32)
HALVES = (torch.float16, torch.bfloat16)
SHAPES = ((3,), (2, 3), (3, 3), (5, 7), (2, 3, 4), (1, 5), (), (2, 1, 4), (1, 2, 6, 5), (17, 3),
          (7, 5), (2, 4, 4), (1, 2, 3, 4, 5))
MOST_ELEMENTS, MOST_RANK, LARGEST = 2048, 5, 1e4

# Results that nobody promises: memory as it was, arguments not checked, the order of equals,
# factors and inverses of matrices that have none, the side of an edge that rounding chooses.
# PyTorch's anti-aliasing to a width of 1 is wrong (a row of the first element), and its _scaled_mm
# ends the process where out_dtype is no dtype.
UNDEFINED = ("empty", "_unsafe", "_backward", "lshift", "rshift", "as_strided", "backward",
             "index_put", "_embedding_bag", "scatter.src", "_local_scalar", "batch_norm",
             "_trilinear", "_reshape_alias", "_pdist", "_fused_rms_norm", "_aa",
             "cholesky_ex", "cholesky_inverse", "inv_ex", "solve_ex", "histogram", "_scaled_mm")
JUMPS = ("floor", "ceil", "round", "trunc", "frac", "sign", "sgn", "fmod", "remainder", "heaviside",
         "threshold", "hardshrink", "nearest", "grid_sampler", "nextafter", "copysign", "histc",
         "div.Tensor_mode", "div.Scalar_mode", "atan2", "mode", "digamma", "lgamma", "tan",
         "polygamma", "max_pool", "prod", "std", "frexp", "logit", "acosh", "asin", "acos")
JUMP_IN_DEGREE = "_polynomial_"  # its argument n is cut to a whole number
FIRST_RESULT_ONLY = ("topk", "kthvalue", "median", "mode", "sort")
SORTED = ("sorted_sequence", "boundaries")  # arguments: what a search among others finds is open


@functools.cache
def operators() -> list:
    """The overloads of the registry that a random graph may hold, by name."""
    found = []
    for entry in tv.supported_ops():
        namespace, _, name = entry["op"].partition("::")
        packet, _, overload = name.partition(".")
        if namespace != "aten" or any(word in name for word in UNDEFINED):
            continue
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if op is None or op._schema.is_mutable or torch.Tag.nondeterministic_seeded in op.tags:
            continue
        if any(str(a.type) == "Tensor" or "List" in str(a.type) for a in op._schema.arguments):
            found.append(op)
    return found


@dataclass
class Call:
    """One operator: its arguments name values by number; results are `first`, `first` + 1, …"""

    op: object
    args: list
    kwargs: dict
    first: int
    results: int
    is_tuple: bool


@dataclass
class Program:
    """Inputs and calls, with every value as eager computes it, in float32 and in float64."""

    inputs: int = 0
    calls: list[Call] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)
    doubles: list[torch.Tensor] = field(default_factory=list)
    read: set[int] = field(default_factory=set)

    def leaves(self) -> list[int]:
        made = range(self.inputs, len(self.values))
        return [i for i in made if i not in self.read] or list(made)

    def text(self) -> str:
        """A script that computes the leaves."""
        lines = ["import torch"]
        for i, v in enumerate(self.values[:self.inputs]):
            lines.append(f"v{i} = torch.tensor({v.tolist()}, dtype={v.dtype})"
                         f".reshape({list(v.shape)})")
        for call in self.calls:
            given = [repr(a) for a in call.args]
            given += [f"{k}={v!r}" for k, v in call.kwargs.items() if v is not None]
            names = ", ".join(f"v{call.first + k}" for k in range(call.results))
            some = ", *_" if call.is_tuple else ""
            lines.append(f"{names}{some} = torch.ops.{call.op}({', '.join(given)})")
        return "\n".join([*lines, f"results = {[Ref(i) for i in self.leaves()]}"])


def _resolved(item, values):
    if isinstance(item, Ref):
        return values[item.number]
    if isinstance(item, (list, tuple)):
        return [_resolved(x, values) for x in item]
    return item


def _refs(item) -> list[int]:
    if isinstance(item, Ref):
        return [item.number]
    return [n for x in item for n in _refs(x)] if isinstance(item, (list, tuple)) else []


def draw_program(choose: Chooser, most_calls: int = 30, dtype=torch.float32) -> Program:
    """`dtype`: of the first input, and of others as often as each of DTYPES."""
    program, given = Program(), dtype
    for i in range(choose.number(1, 3)):
        dtype = choose.one_of(dict.fromkeys((given, *DTYPES))) if i else given
        shape = choose.one_of(SHAPES)
        generator = torch.Generator().manual_seed(choose.number(0, 99))
        whole = torch.randint(-8, 9, shape, generator=generator)
        value = whole / 4 if dtype.is_floating_point else whole % 3
        program.values.append(value.to(dtype))
        program.doubles.append(_widened(value.to(dtype)))
    program.inputs = len(program.values)
    wanted = choose.number(5, most_calls)
    for _ in range(4 * wanted):
        if len(program.calls) < wanted:
            _try_call(program, choose.one_of(operators()), choose)
    return program


def _widened(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


def _tensors(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _try_call(program: Program, op, choose: Chooser) -> None:
    """Adds a call where eager takes it and its results are well conditioned."""
    args, kwargs = draw_arguments(op, program.values, choose)
    used = _refs(args) + _refs(list(kwargs.values()))
    name = str(op)
    if not used or sum(program.values[i].numel() for i in used) > 4 * MOST_ELEMENTS:
        return
    asked = _asked(program, op, args, kwargs, used)
    if asked is None:
        return
    result, double = asked
    results, doubles = _tensors(result), _tensors(double)
    if any(word in name for word in FIRST_RESULT_ONLY):
        results, doubles = results[:1], doubles[:1]
        if any(_zeros_of_both_signs(program.values[i]) for i in used):
            return
    if _searches_unsorted(op, args, kwargs, program.values) or leaves_order_open(op, args, kwargs):
        return
    types = [r.dtype if isinstance(r, torch.Tensor) else None for r in _tensors(result)]
    if _captured_types(op, args, kwargs, {i: program.values[i] for i in used}) != types:
        return
    jumps = any(word in name for word in JUMPS) or any(
        not isinstance(r, torch.Tensor) or not r.is_floating_point() for r in results)
    if jumps and not all(_is_exact(program, i) for i in used):
        return
    if not all(_is_exact(program, i) for i in _degrees(op, args)):
        return
    if not results or not all(map(_is_usable, results, doubles)):
        return
    program.calls.append(Call(op, args, kwargs, len(program.values), len(results),
                              isinstance(result, (tuple, list))))
    program.read.update(used)
    program.values += results
    program.doubles += doubles


_ASKED: dict = {}
_MOST_ASKED = 4000


def _asked(program: Program, op, args, kwargs, used: list[int]):
    """Eager's result, and that in float64; None: it refuses the call, or gives others when asked
    again. Asked once for the same values: hypothesis draws a program again, and what follows in it
    has to be the same, whatever an operator reads that nobody wrote."""
    operands = [values[i] for i in used for values in (program.values, program.doubles)]
    key = (str(op), repr(args), repr(kwargs), *map(_written, operands))
    if key not in _ASKED:
        while len(_ASKED) >= _MOST_ASKED:
            del _ASKED[next(iter(_ASKED))]
        found = _computed(op, args, kwargs, program)
        if found:
            for made in map(_tensors, found):  # what is freed here is what the next are made of
                [torch.full_like(r, 77) for r in made if isinstance(r, torch.Tensor)]
            again = _computed(op, args, kwargs, program)
            found = found if again and _written_all(found) == _written_all(again) else None
        _ASKED[key] = found
    return _ASKED[key]


def _computed(op, args, kwargs, program: Program):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tuple(op(*_resolved(args, values),
                            **{k: _resolved(v, values) for k, v in kwargs.items()})
                         for values in (program.values, program.doubles))
    except Exception:  # noqa: BLE001  no call: eager says so in many ways
        return None


def _written(value) -> tuple:
    """What tells a value from others."""
    if not isinstance(value, torch.Tensor):
        return ("none", repr(value))
    return value.dtype, value.shape, value.stride(), raw_bytes(value).numpy().tobytes()


def _written_all(results) -> list:
    return [_written(r) for made in results for r in _tensors(made)]


def _degrees(op, args) -> list[int]:
    names = [argument.name for argument in op._schema.arguments]
    return _refs([a for name, a in zip(names, args, strict=False)
                  if name == "n" and JUMP_IN_DEGREE in str(op)])


def _captured_types(op, args, kwargs, values) -> list | None:
    """The results' types as PyTorch's own fake tensors have them; None where they refuse the call.

    Some of its references refuse more than eager, and a few give another type (ldexp of integers by
    a 16-bit number: float32): every backend is given that one.
    """
    with FakeTensorMode() as mode:
        fakes = {i: mode.from_tensor(v) for i, v in values.items()}
        try:
            result = op(*_resolved(args, fakes),
                        **{k: _resolved(v, fakes) for k, v in kwargs.items()})
        except Exception:  # noqa: BLE001  they say so in many ways
            return None
    return [r.dtype if isinstance(r, torch.Tensor) else None for r in _tensors(result)]


def _searches_unsorted(op, args, kwargs, values) -> bool:
    names = [argument.name for argument in op._schema.arguments]
    among = [_resolved(a, values) for name, a in zip(names, args, strict=False) if name in SORTED]
    if among and kwargs.get("sorter") is not None:
        among = [among[0].gather(-1, _resolved(kwargs["sorter"], values))]
    return any(not torch.equal(a, a.sort().values) for a in among)


def leaves_order_open(op, args, kwargs) -> bool:
    """`sorted=False`: the elements are promised, their order is whatever the algorithm leaves."""
    names = [argument.name for argument in op._schema.arguments]
    return not {**dict(zip(names, args, strict=False)), **kwargs}.get("sorted", True)


def _zeros_of_both_signs(value) -> bool:
    """They are equal: which of them a selection takes, and so the sign that copysign sees, is
    open."""
    signs = value[value == 0].signbit()
    return bool(signs.any() and not signs.all())


def _is_exact(program: Program, i: int) -> bool:
    value, double = program.values[i], program.doubles[i]
    if not value.is_floating_point():
        return True
    return bool((value.double() == double).all() and (double * 256 == (double * 256).round()).all())


def _is_usable(value, double) -> bool:
    if not isinstance(value, torch.Tensor) or value.dtype not in (*DTYPES, *HALVES):
        return False
    if not 0 < value.numel() <= MOST_ELEMENTS or value.dim() > MOST_RANK:
        return False
    if value.shape != double.shape:
        return False
    if not value.is_floating_point():
        return bool((value == double).all()) and (
            value.dtype == torch.bool or bool((value.abs() <= LARGEST).all()))
    near = (value.double() - double).abs() <= _far(value.dtype) * (1 + double.abs())
    return bool((near & value.isfinite() & (value.abs() <= LARGEST)).all())


def _far(dtype) -> float:
    """What eager's values are off by at most, relative to 1 and their size."""
    return 4 * torch.finfo(dtype).eps if dtype in HALVES else 1e-5


def build(program: Program) -> fx.GraphModule:
    """The program as an FX graph, one node a call."""
    graph, mode, nodes = fx.Graph(), FakeTensorMode(), {}
    for i in range(program.inputs):
        nodes[i] = graph.placeholder(f"v{i}")
        nodes[i].meta["val"] = mode.from_tensor(program.values[i])
    for call in program.calls:
        args = _resolved(call.args, nodes)
        kwargs = {k: _resolved(v, nodes) for k, v in call.kwargs.items()}
        node = graph.call_function(call.op, tuple(args), kwargs)
        with mode:
            fakes = fx.node.map_arg((tuple(args), kwargs), lambda n: n.meta["val"])
            node.meta["val"] = call.op(*fakes[0], **fakes[1])
        for k in range(call.results):
            picked = node
            if call.is_tuple:
                picked = graph.call_function(getitem, (node, k))
                picked.meta["val"] = node.meta["val"][k]
            nodes[call.first + k] = picked
    graph.output(tuple(nodes[i] for i in program.leaves()))
    return fx.GraphModule({}, graph)


def run_compiled(program: Program) -> list[torch.Tensor]:
    settings = Settings.from_options({"min_block_size": 1, "pass_through_build_failures": True})
    compiled = compile_graph_module(build(program), "inference", settings, set())
    return list(compiled([v.clone() for v in program.values[:program.inputs]]))


def check_program(program: Program) -> None:
    """Raises AssertionError with a script where the compiler's results are not eager's."""
    expected = [(program.values[i], program.doubles[i]) for i in program.leaves()]
    halves = [value.dtype for value in program.values if value.dtype in HALVES]
    try:
        actual = run_compiled(program)
        for a, (e, exact) in zip(actual, expected, strict=True):
            if halves and e.is_floating_point():  # of float32, too: they may be made of 16 bits
                assert a.dtype == e.dtype, f"{a.dtype} for {e.dtype}"
                limit = 2 * _far(halves[0])
                torch.testing.assert_close(a.double(), exact.double(), rtol=limit, atol=limit)
            else:
                torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)
    except Exception as error:
        raise AssertionError(f"{error}\nThe graph:\n{program.text()}") from error
