"""Every operator of the pointwise table on zeros of both signs, infinities, NaN and numbers at the ends of a
dtype: where results differ from eager in what they are (a NaN, an infinity, a zero and its sign)."""

import functools
import itertools
import os
from dataclasses import dataclass

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_vulkan as tv
from torch_vulkan._base.settings import Settings
from torch_vulkan._dynamo.backend import compile_graph_module

from denormals import flushes_denormals
from parity import OPTIONS

# Numbers for arguments that are not tensors, by name; else NUMBERS.
NUMBERS = (0.0, -0.0, 1.5, -2.0)
NAMED = {
    "rounding_mode": (None, "floor", "trunc"), "n": (0, 1, 3), "decimals": (0, 2, -1),
    "alpha": (1, 2), "scale": (1.5,), "input_scale": (1.0,), "is_result": (False,),
    "self_is_result": (False,), "negative_slope": (0.01, 0.0), "beta": (1.0,), "lambd": (0.5, 0.0),
    "weight": (0.0, 0.25, 1.0), "threshold": (0.0, -2.0), "max_val": (1.5,), "min_val": (-1.5,),
    "approximate": ("none", "tanh"), "value": (0.0, 1.5), "eps": (None, 0.25),
}
BOOLEANS = ("condition", "mask")


@dataclass(frozen=True)
class Call:
    """An operator on tensors (their places in its arguments) and fixed arguments."""

    op: torch._ops.OpOverload
    tensors: tuple[str, ...]
    fixed: tuple[tuple[str, object], ...]

    def __str__(self):
        fixed = "".join(f", {name}={value}" for name, value in self.fixed)
        return f"{self.op}({', '.join(self.tensors)}{fixed})"


def overload(name):
    space, _, rest = name.partition("::")
    base, _, variant = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), variant or "default")


def calls_of(name):
    """What is called of an operator: each of its tensors with each of its numbers."""
    op = overload(name)
    tensors, choices = [], []
    for a in op._schema.arguments:
        kind = str(a.type)
        if "List" in kind:
            return []
        if kind in ("Tensor", "Optional[Tensor]"):
            tensors.append(a.name)
        elif a.name in NAMED:
            choices.append([(a.name, v) for v in NAMED[a.name]])
        elif kind in ("number", "float", "Optional[number]", "Optional[float]"):
            given = NUMBERS if not a.has_default_value() or kind.startswith("Opt") else (a.default_value,)
            choices.append([(a.name, v) for v in given])
        elif not a.has_default_value():
            return []
    if not tensors or op._schema.name.endswith(("_like", "scalar_tensor")):
        return []
    return [Call(op, tuple(tensors), fixed) for fixed in itertools.product(*choices)]


def pointwise_calls():
    """Of one operator if TV_TEST_OP names it, as in the C++ tests."""
    names = [i["op"] for i in tv.supported_ops() if i["kind"] == "pointwise"]
    return [call for name in names if name.startswith("aten::") for call in calls_of(name)
            if os.environ.get("TV_TEST_OP") in (None, name)]


def numbers(dtype, few=False):
    info = torch.finfo(dtype)
    sizes = [0.0, 1.0, float("inf")]
    if not few:
        sizes += [0.5, 2.0, 3.0, 30.0, info.tiny, info.max, info.tiny * info.eps * 2]
    return torch.tensor([*(s * sign for s in sizes for sign in (1, -1)), float("nan")], dtype=dtype)


def arguments(count, dtype):
    """All combinations of the numbers, a tensor an argument."""
    few = numbers(dtype, few=count > 2)
    return [c.contiguous() for c in torch.meshgrid(*[few] * count, indexing="ij")]


def given(call, inputs):
    values, tensors = [], iter(inputs)
    for name in call.tensors:
        value = next(tensors)
        values.append(value > 0 if name in BOOLEANS else value)
    return values


def invoke(call, values):
    named = dict(zip(call.tensors, values, strict=True)) | dict(call.fixed)
    plain, keywords, positional = [], {}, True
    for a in call.op._schema.arguments:
        positional = positional and not a.kwarg_only and a.name in named
        if a.name not in named:
            continue
        if positional:
            plain.append(named[a.name])
        else:
            keywords[a.name] = named[a.name]
    return plain, keywords


def eager(call, values):
    """The result, or None where PyTorch has none."""
    plain, keywords = invoke(call, values)
    try:
        return call.op(*plain, **keywords)
    except (RuntimeError, NotImplementedError, ValueError):
        return None


def compiled(calls, dtype):
    """Results of all calls, out of one graph."""
    graph, mode = fx.Graph(), FakeTensorMode()
    args, places = [], {}

    def placeholder(key, value):
        if key not in places:
            places[key] = graph.placeholder(f"x{len(args)}")
            places[key].meta["val"] = mode.from_tensor(value)
            args.append(value)
        return places[key]

    results = []
    for call in calls:
        values = given(call, arguments(len(call.tensors), dtype))
        keys = [(len(call.tensors), i, v.dtype) for i, v in enumerate(values)]
        nodes = [placeholder(k, v) for k, v in zip(keys, values, strict=True)]
        plain, keywords = invoke(call, nodes)
        node = graph.call_function(call.op, tuple(plain), keywords)
        fake_plain, fake_keywords = invoke(call, [n.meta["val"] for n in nodes])
        with mode:
            node.meta["val"] = call.op(*fake_plain, **fake_keywords)
        results.append(node)
    graph.output(tuple(results))
    # Placeholders may follow calls in the order they were made; fx wants them first.
    for node in reversed([n for n in graph.nodes if n.op == "placeholder"]):
        graph._root.append(node)
    module = fx.GraphModule({}, graph)
    run = compile_graph_module(module, "inference", Settings.from_options(OPTIONS), set())
    order = [n for n in module.graph.nodes if n.op == "placeholder"]
    by_name = {places[k].name: a for k, a in zip(places, args, strict=True)}
    return run([by_name[n.name] for n in order])


def kinds(t):
    """What each number is: NaN 4; infinity 3, zero 1, other 2, with its sign."""
    t = t.float()
    size = torch.where(t == 0, 1, torch.where(t.isinf(), 3, 2))
    return torch.where(t.isnan(), 4, torch.where(t.signbit(), -size, size))


def one_by_one(call, values):
    elements = zip(*[v.flatten() for v in values], strict=True)
    return torch.stack([eager(call, v) for v in elements]).view(values[0].shape)


def alike(got, want, tiny):
    """Where two results are the same kind of number, and near; a denormal one may be flushed, with its sign."""
    near = (want.abs() <= tiny) & (got.abs() <= tiny) & (want.signbit() == got.signbit())
    close = torch.isclose(got.float(), want.float(), rtol=1e-2, atol=1e-6, equal_nan=True)
    return (kinds(got) == kinds(want)) & close | near


def any_of(masks):
    return functools.reduce(torch.logical_or, masks)


def differences(call, got, dtype):
    """(arguments, got, wanted) where what the result is differs from eager, be that computed in vectors
    or one element at a time, and of denormal arguments or of 0, where the device takes them for that."""
    values = given(call, arguments(len(call.tensors), dtype))
    want = eager(call, values)
    if want is None or not want.dtype.is_floating_point:
        return []
    one = one_by_one(call, values)
    tiny = torch.finfo(want.dtype).tiny
    same = alike(got, want, tiny) | alike(got, one, tiny)
    if flushes_denormals():
        flushed = [torch.where(v.abs() < torch.finfo(v.dtype).tiny, v * 0, v) if v.is_floating_point() else v
                   for v in values]
        for w in (eager(call, flushed), one_by_one(call, flushed)):
            # Of what is taken for a zero, a result may be any: with the one's sign or the other's.
            is_zero = (w == 0) & (got.abs() <= tiny)
            same |= (alike(got, w, tiny) | is_zero) & any_of(f != v for f, v in zip(flushed, values, strict=True))
    bad = (~same).nonzero()
    return [([v[tuple(b)].item() for v in values], got[tuple(b)].item(), want[tuple(b)].item(), one[tuple(b)].item())
            for b in bad]
