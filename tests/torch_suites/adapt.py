"""Makes torch's tests compile with a backend of ours wherever they name one of torch's."""

import contextlib
import copy
import importlib

import torch
import torch._dynamo.backends.registry as registry
import torch._dynamo.eval_frame as eval_frame
import torch._dynamo.testing as testing

import torch_vulkan  # noqa: F401  registers the backend
from torch_vulkan._base.settings import Settings
from torch_vulkan._dynamo.backend import compile_graph_module

REPLACED = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
OPTIONS = {"min_block_size": 1, "optimization_level": 0}
_real_lookup = registry.lookup_backend
_current = "aot_eager"


def use(name: str) -> None:
    """What tests compile with from here on: "aot_eager" or "vulkan"."""
    global _current
    _current = name


def compiled(module, example_inputs, **_):
    """A graph of Dynamo's, compiled by the current backend."""
    options = {"options": OPTIONS} if _current == "vulkan" else {}
    return _real_lookup(_current)(module, example_inputs, **options)


def compiled_graph(module, example_inputs=None):
    """A boxed callable for a graph of AOTAutograd's; tests go on to read `module`."""
    from functorch.compile import make_boxed_func

    if _current != "vulkan":
        return make_boxed_func(module.forward)
    copied = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    return compile_graph_module(copied, _kind(module.graph), Settings.from_options(OPTIONS), set())


def _kind(graph) -> str:
    """Which of AOTAutograd's graphs it is, by the names of arguments: tests compile all alike."""
    names = [node.name for node in graph.find_nodes(op="placeholder")]
    if any(name.startswith("tangents") for name in names):
        return "backward"
    return "forward" if any(name.startswith("primals") for name in names) else "inference"


def _lookup(name):
    return compiled if name in REPLACED else _real_lookup(name)


def _as_it_is(function, *_, **__):
    """Stands for a decorator that torch's test helpers no longer have."""
    return function


def _missing(name: str):
    if name.startswith("__"):
        raise AttributeError(name)
    return _as_it_is


def install() -> None:
    """Replaces torch's backends, before test files are imported."""
    for helpers in ("torch.testing._internal.common_utils", "torch._inductor.utils",
                    "torch.testing._internal.inductor_utils", "torch._dynamo.testing",
                    "torch.testing._internal.common_cuda", "torch._inductor.codegen.common",
                    "torch.testing._internal.common_quantization",
                    "torch._inductor.compile_fx"):
        vars(importlib.import_module(helpers)).setdefault("__getattr__", _missing)
    registry.lookup_backend = eval_frame.lookup_backend = _lookup
    torch._TorchCompileInductorWrapper.__call__ = lambda self, module, inputs: compiled(
        module, inputs)
    for counter in (testing.CompileCounter, testing.EagerAndRecordGraphs):
        _replace_result(counter)


def _replace_result(counter) -> None:
    real = counter.__call__

    def call(self, module, example_inputs):
        real(self, module, example_inputs)
        return compiled(module, example_inputs)

    counter.__call__ = call


def adapt_module(module) -> None:
    """Replaces what a test file imported by name."""
    names = vars(module)
    if "nop" in names:
        module.nop = compiled_graph
    if "extract_graph" in names:
        def extract_graph(graph, example_inputs, graph_cell):
            graph_cell[0] = graph
            boxed = compiled_graph(graph, example_inputs)
            return lambda *args: boxed([*args])
        module.extract_graph = extract_graph
    if "compile_fx" in names:
        module.compile_fx = compiled
    for name in ("fresh_inductor_cache", "fresh_cache"):
        if name in names:
            setattr(module, name, contextlib.nullcontext)
    for kind in [k for k in names.values() if isinstance(k, type)]:
        if hasattr(kind, "guard_manager_clone_hook_fn"):  # looks into guards, of another signature
            kind.guard_manager_clone_hook_fn = lambda *_: None
