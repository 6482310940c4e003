"""torch.compile(backend="vulkan")."""

import functools
import warnings

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from .. import compilations
from .._base.calibration_use import warn_of_gradients
from .._base.dumps import debug_directory
from .._base.errors import OUT_OF_MEMORY, UNAVAILABLE
from .._base.settings import Settings
from .._device import cuda_memory, device_list
from .._dry_run import sessions
from .._fx import (
    captured_tensors,
    engine_call,
    four_bits,
    parameter_names,
    regions,
    report,
    shared_bases,
    two_four,
)
from .._fx.complex_values import real_at_border
from .._fx.engine_graph import EngineGraph
from .._fx.fx_nodes import main_device, op_name
from .._fx.mutation import attach_writes, detach_writes, refuse_overlaps, refuse_resizes
from .._fx.native_writes import write_natively
from .._fx.prepare import prepare
from .._fx.quantised_scales import check_captured
from .._fx.refusals import AsCaptured, WholeGraph
from .._fx.regenerated_views import refuse_what_sizes_do_not_tell
from .._fx.returned_views import Views, views_of_arguments
from .._fx.small_floats import codes_at_border
from .._fx.splitting import record_of, split
from .._fx.whole_graph import whole_graph
from .._native import C
from .._torch import (
    base_guards,
    compat,
    encoder_layers,
    filled_places,
    foreach,
    graph_breaks,
    observed_ranges,
    other_storage,
    refused_numbers,
    unpooled,
)
from .._torch.detached import keep_detached
from .._torch.guards import of_graph
from .._torch.kept_composites import keep_composites, use_own_operators
from .._torch.shared_places import keep_places
from ..compilations import Compilation
from .wrapped_weights import count_writes


def vulkan(module: fx.GraphModule, example_inputs, *, options=None, mode=None):
    """The backend: a captured graph → a callable that computes the same."""
    try:
        if mode is not None:
            options = {**(options or {}), "mode": mode}
        settings = Settings.from_options(options)
        if any(map(_is_opaque, example_inputs)):
            return module.forward  # what such a class does is known to PyTorch alone
        check_captured(module, example_inputs)
        graph_breaks.watch()
        several = graph_breaks.cause_of_several_graphs(module) if (
            settings.require_full_compilation) else ""
        if several and not settings.builds_nothing:
            raise ValueError(graph_breaks.message(several))
        settings = settings.keyed_by(_held(module, example_inputs))
        # Not inside: PyTorch remembers for good which operators it finds to have decompositions.
        watch = sessions.Watch.of(module, settings)
        aot = through_aot(settings, watch)
    except (ValueError, *OUT_OF_MEMORY, C.UnsupportedError, C.DeviceError) as error:
        raise compat.through_dynamo(error) from error.__cause__
    compiled = compile_captured(aot, module, example_inputs, settings, watch)
    if several:
        raise compat.through_dynamo(ValueError(graph_breaks.message(several)))
    return compiled


def compile_captured(aot, module: fx.GraphModule, example_inputs, settings: Settings, watch=None):
    """What Dynamo captured, through `aot` (see through_aot); by PyTorch where that gives up."""
    parameter_names.name_modules(module)
    guards = base_guards.count()
    try:
        _refuse_other_storage(module)
        with keep_composites(), compat.views_by_their_facts(), (
                parameter_names.known_from(module)), (
                captured_tensors.known_from(module, example_inputs)):
            compiled = count_writes(example_inputs, keep_places(
                module, example_inputs, keep_detached(module, aot(module, example_inputs))))
        if base_guards.drop_since(guards):
            raise WholeGraph("PyTorch cannot check the size of what an argument is a view of")
        return compiled
    except AsCaptured:
        return module.forward
    except WholeGraph as error:
        return _uncompiled(module, settings, error, watch)
    except Exception as error:  # of many types: whatever PyTorch's tracing of a graph raises
        if isinstance(error, UNAVAILABLE) and (settings.pass_through_build_failures
                                               or settings.require_full_compilation):
            raise compat.through_dynamo(error) from error.__cause__
        if compat.is_for_dynamo(error) or settings.pass_through_build_failures:
            raise
        return _uncompiled(module, settings, error, watch)
    finally:
        base_guards.drop_since(guards)


def _refuse_other_storage(module: fx.GraphModule) -> None:
    """What shares memory behind `x.data = y` is known when the graph runs, operator by operator;
    AOTAutograd's functional graph loses some of it, gradients among it (torch 2.13).

    Raises:
        WholeGraph: the graph has such an assignment.
    """
    if other_storage.is_assigned(module):
        other_storage.pass_over_uncounted_versions(module)
        raise WholeGraph("x.data = … or set_ gives a tensor another's memory")


def _uncompiled(module: fx.GraphModule, settings: Settings, error: Exception, watch):
    """What runs a graph that PyTorch's own tracing does not take: PyTorch, as it is written.

    Raises:
        ValueError: require_full_compilation is set.
    """
    reason = report.not_traced(error)
    calls = [n for n in module.graph.nodes if n.op in ("call_function", "call_method")]
    records = [record_of(node, reason) for node in calls]
    if settings.builds_nothing:
        try:
            sessions.describe_native(calls, records, reason, settings, watch)
        except ValueError as refused:
            raise compat.through_dynamo(refused) from error
    elif settings.require_full_compilation:
        raise compat.through_dynamo(ValueError(f"require_full_compilation: {reason}")) from error
    else:
        warnings.warn(f"torch_vulkan: {reason}; the graph runs natively", stacklevel=4)
    compilations.record(Compilation("inference", len(calls), 0, [], records))
    return module.forward


def _is_opaque(value) -> bool:
    """True for a subclass of Tensor that AOTAutograd does not trace through."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    plain = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor)
    return isinstance(value, torch.Tensor) and type(value) not in plain and (
        not isinstance(value, torch.nn.Parameter)) and not is_traceable_wrapper_subclass(value)


def _held(module: fx.GraphModule, example_inputs) -> list[torch.Tensor]:
    """The parameters and buffers that a captured graph holds or is given."""
    given = [v for v in example_inputs if isinstance(v, torch.nn.Parameter)
             or hasattr(v, "_dynamo_static_input_type")]
    held = [*given, *module.parameters(), *module.buffers()]
    return [v for v in held if not isinstance(v, FakeTensor)]


@functools.cache
def decompositions() -> dict:
    """torch's core decompositions, some of its others and ours, but for operators with a converter
    of their own, for random numbers, which must be eager's, and for resize_as: torch's takes
    whatever strides a tensor has for contiguous ones, and gives its elements another order."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    aten = torch.ops.aten
    others = get_decompositions([aten.batch_norm_backward, aten.rrelu_with_noise_backward])

    def stays(op):
        return isinstance(op, torch._ops.OpOverload) and (
            C.is_registered(op_name(op)) or torch.Tag.nondeterministic_seeded in op.tags
            or op.overloadpacket is aten.resize_as)

    known = {**core_aten_decompositions(), **others, **encoder_layers.DECOMPOSITIONS,
             **filled_places.DECOMPOSITIONS, **observed_ranges.DECOMPOSITIONS,
             **refused_numbers.DECOMPOSITIONS, **unpooled.DECOMPOSITIONS,
             **foreach.decompositions()}
    return {op: function for op, function in known.items() if not stays(op)}


def through_aot(settings: Settings, watch=None):
    """A backend for what Dynamo captures; `watch`: what is told where nothing is built."""
    def compiler(kind):
        def compile_graph(module, example_inputs):
            compat.keep_what_is_saved()
            if kind != "backward":
                compat.replay_views_where_facts_fail(module.graph)
                refuse_resizes(module.graph)
                refuse_overlaps(module.graph, compat.static_inputs()[1])
                refuse_what_sizes_do_not_tell(module.graph, compat.user_outputs(kind))
            try:
                weights = parameters_of(module, settings) if kind == "inference" else set()
                return compile_graph_module(module, kind, settings, weights, watch)
            except (ValueError, C.UnsupportedError, C.DeviceError) as error:
                raise compat.through_dynamo(error) from error.__cause__
        return compile_graph

    return aot_backend(*map(compiler, ("forward", "backward", "inference")))


def aot_backend(forward, backward, inference):
    """AOTAutograd's backend that hands graphs of this package's operators to these compilers."""
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(fw_compiler=forward, bw_compiler=backward, inference_compiler=inference,
                        decompositions=decompositions(), keep_inference_input_mutations=True)


def compile_graph_module(module: fx.GraphModule, kind: str, settings: Settings, weights: set[str],
                         watch=None):
    """Compiles one functional graph of ATen operators, of which the placeholders named in `weights`
    are parameters; returns a callable that takes a list.

    Raises:
        ValueError: require_full_compilation is set and something stays native.
        DeviceError: there is no Vulkan device.
        OutOfMemoryError: it cannot be opened.
        AsCaptured: PyTorch runs all of it, and does so better before it is functional.
    """
    regions.inline(module)
    graph = module.graph
    bases = shared_bases.narrow_bases(graph)
    writes = bool(graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default))
    views = Views(views_of_arguments(graph, *compat.views_of_arguments(kind, graph),
                                     compat.views_laid_out_otherwise(kind, graph)),
                  compat.views_of_autograd(kind, graph))
    calls, failed = build_engines(module, kind, settings, weights, compat.user_outputs(kind),
                                  watch, views)
    if kind == "inference" and writes and not calls and not settings.builds_nothing:
        raise AsCaptured("no engine takes a part of the graph, and it writes to arguments")
    if writes:
        write_natively(module)
    whole = whole_graph(module) if len(calls) == 1 and not failed else None
    call = whole or boxed(module.forward)
    return shared_bases.narrowed(call, bases) if bases else call


def build_engines(module: fx.GraphModule, kind: str, settings: Settings, weights: set[str],
                  user_outputs: int, watch=None, views: Views | None = None,
                  ahead_of_time: bool = False):
    """Partitions a graph in place and builds its engines: each is a sub-module `engine_<i>` then.
    `ahead_of_time`: the graph is a whole model, and a warning says where it gets no engine.

    Returns the calls of engines, and name → error of blocks that run natively because they were
    not built. Raises as compile_graph_module does.
    """
    with of_graph(module.graph):
        return _build_engines(module, kind, settings, weights, user_outputs, watch, views,
                              ahead_of_time)


def _build_engines(module, kind, settings, weights, user_outputs, watch, views, ahead_of_time):
    results = len(module.graph.output_node().args[0])
    written = detach_writes(module)
    prepare(module, min(user_outputs, results), kind, views)
    tensors_on = main_device(module.graph)
    if settings.builds_nothing:
        sessions.describe(module, kind, settings, weights, tensors_on, watch, written)
        use_own_operators(module)
        attach_writes(module, written, [], settings.truncate_long_and_double)
        return [], {}
    device = device_list.spec_for(settings.device, tensors_on)
    if tensors_on.type == "cuda":
        cuda_memory.allocate_shareable()
    profile = device_profile(device)
    debug_dir = debug_directory(settings)
    parts = split(module, weights, settings, profile)
    if kind == "forward" and settings.permits_int8:
        warn_of_gradients(parts.plan.calibration)
    if settings.require_full_compilation and not parts.plan.is_whole:
        raise ValueError(report.in_the_way(parts))
    attach_writes(module, written, parts.engines, settings.truncate_long_and_double)
    calls, failed = [], {}
    for name in parts.engines:
        real_at_border(module, name)
        codes_at_border(module, name)
        try:
            graph = EngineGraph(module, name, parts.plan, parts.block_of[name], parts.imported)
            call = engine_call.build(name, graph, settings, device, profile, parts.compute[name],
                                     debug_dir and f"{debug_dir}/{kind}_{name}")
        except (RuntimeError, ValueError, MemoryError) as error:
            if settings.pass_through_build_failures or isinstance(error, C.DeviceError):
                raise
            if settings.require_full_compilation:
                if isinstance(error, UNAVAILABLE):
                    raise
                raise ValueError(
                    f"require_full_compilation: {name} was not built: {error}") from error
            warnings.warn(f"torch_vulkan: {name} was not built and runs natively: {error}",
                          stacklevel=2)
            failed[name] = str(error)
            continue
        setattr(module, name, call)
        calls.append(call)
    for part in (module, *(getattr(module, name) for name in failed)):
        use_own_operators(part)
    covered = sum(call.record.compute_nodes for call in calls)
    native = [*parts.native, *report.failures(parts, failed)]
    compilations.record(Compilation(kind, parts.compute_nodes, covered,
                                    [call.record for call in calls], native))
    if ahead_of_time and not calls and parts.compute_nodes and not failed:
        warnings.warn(f"torch_vulkan: {report.no_engine(native)}", stacklevel=2)
    return calls, failed


def parameters_of(module: fx.GraphModule, settings: Settings) -> set[str]:
    """Names of the placeholders that are parameters or buffers which the graph does not change."""
    static, mutated = compat.static_inputs()
    nodes = [node for i, node in enumerate(module.graph.find_nodes(op="placeholder"))
             if i in static and i not in mutated]
    for node in nodes:
        parameter_names.give(node)
        four_bits.mark_argument(node)
        if settings.sparse_weights:
            two_four.mark_argument(node)
    return {node.name for node in nodes}


def device_profile(device: str):
    """The device profile. Raises DeviceError if there is none, OutOfMemoryError."""
    return C.device_profile(device)


def boxed(function):
    """A function that takes its arguments as a list."""
    from torch._functorch.aot_autograd import make_boxed_func

    return make_boxed_func(function)
