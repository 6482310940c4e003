"""What tracing needs: an engine that knows its shapes, and an `execute` that computes nothing."""

import json

import torch

from .._base.dtypes import DTYPES
from .._native import C
from .._torch import compat


@torch._library.register_fake_class("torch_vulkan::Engine")
class FakeEngine:
    """Stands for an engine while a graph is traced."""

    def __init__(self, vke, device, immutable_weights, truncate, description):
        self.file = vke
        self.device_name = device
        self.immutable_weights = immutable_weights
        self.truncate = truncate
        self.description = description
        self._info = _parsed(json.loads(description))

    @classmethod
    def __obj_unflatten__(cls, flat):
        return cls(**dict(flat))

    def vke(self):
        return self.file

    def device(self):
        return self.device_name

    def results(self, inputs):
        """Empty tensors with the shapes of the engine's outputs for these inputs."""
        symbols = self._bind(inputs)
        like = inputs[0] if inputs else torch.empty(0)
        return [torch.empty_strided([_evaluate(d, symbols) for d in output["shape"]],
                                    [_evaluate(d, symbols) for d in output["strides"]],
                                    dtype=DTYPES[output["dtype"]], device=like.device)
                for output in self._info["outputs"]]

    def merged(self, inputs, written):
        """All inputs in the engine's order: those that it writes come apart from the others."""
        inputs, written = iter(inputs), iter(written)
        return [next(written if binding["written"] else inputs)
                for binding in self._info["inputs"]]

    def _is_no_engine(self, *_):
        raise RuntimeError("[torch_vulkan::Engine] a traced engine computes nothing and holds "
                           "no weights")

    # Methods that a real engine alone has: PyTorch warns of each that a fake class lacks.
    open = replace = execute = refit = stage = commit = discard = _is_no_engine
    forget_weights = weight_sets = weights_prepared = submissions = dispatches = _is_no_engine
    set_weight_budget = weight_budget = weight_memory = _is_no_engine

    def _bind(self, inputs):
        count = self._info["symbols"]
        values = {}
        for tensor, binding in zip(inputs, self._info["inputs"], strict=True):
            for size, dim in zip(tensor.shape, binding["shape"], strict=True):
                if isinstance(dim, int) or len(dim.symbols()) != 1:
                    continue
                at = [dim.eval([value] * count) for value in (0, 1)]
                if dim.solve(at[1]):  # linear: at[0] + (at[1] - at[0]) * symbol
                    values[dim.symbols()[0]] = (size - at[0]) // (at[1] - at[0])
        return values


def _parsed(description: dict) -> dict:
    """The same with expressions in place of their text."""
    def dims(texts):
        parsed = map(C.Expr.parse, texts)
        return [d.constant() if d.constant() is not None else d for d in parsed]

    for binding in (*description.get("inputs", ()), *description.get("outputs", ())):
        binding["shape"], binding["strides"] = dims(binding["shape"]), dims(binding["strides"])
    return description


def _evaluate(dim, symbols):
    if isinstance(dim, int):
        return dim
    names = {f"s{i}": value for i, value in symbols.items()}
    functions = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b,
                 "max": torch.sym_max, "min": torch.sym_min}
    return eval(str(dim), {"__builtins__": {}}, names | functions)


@torch.library.register_fake("torch_vulkan::execute")
def _execute(inputs, weights, engine):
    return _known(engine).results(inputs)


@torch.library.register_fake("torch_vulkan::execute_held")
def _execute_held(inputs, weights, engine):
    return _known(engine).results(inputs)


@torch.library.register_fake("torch_vulkan::execute_written")
def _execute_written(inputs, written, weights, engine):
    known = _known(engine)
    return known.results(known.merged(inputs, written))


@torch.library.register_fake("torch_vulkan::execute_copied")
def _execute_copied(inputs, written, weights, engine):
    known = _known(engine)
    return [*known.results(known.merged(inputs, written)), *map(torch.empty_like, written)]


@torch.ops.torch_vulkan.execute_written.default.py_functionalize_impl
def _functional(ctx, inputs, written, weights, engine):
    """For tracers that take functional graphs: new values, which replace what is written."""
    given = [ctx.unwrap_tensors(tensors) for tensors in (inputs, written, weights)]
    with ctx.redispatch_to_next():
        made = torch.ops.torch_vulkan.execute_copied.default(*given, engine)
    outputs = len(made) - len(written)
    for tensor, value in zip(written, made[outputs:], strict=True):
        ctx.replace(tensor, value)
        ctx.commit_update(tensor)
        ctx.sync(tensor)
    return list(ctx.wrap_tensors(tuple(made[:outputs])))


def _known(engine) -> FakeEngine:
    """What a fake tensor's call needs to know of an engine, whose own file is real."""
    if not isinstance(engine, torch.ScriptObject):
        return engine.wrapped_obj
    with compat.no_fake_mode():
        return FakeEngine.__obj_unflatten__(engine.__obj_flatten__())
