"""Ahead of time: a module becomes an ExportedProgram whose blocks are calls of engines."""

import contextlib
import copy
import inspect
import operator
from dataclasses import replace

import sympy
import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    CustomObjArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .._base.dtypes import NARROWED
from .._base.errors import OUT_OF_MEMORY, UnsupportedError
from .._base.inputs import Arguments, Input
from .._base.settings import Settings
from .._dynamo import backend
from .._engines.engine import split_vke
from .._fx import four_bits, quantised_scales, two_four
from .._fx.mutation import refuse_overlaps, refuse_resizes
from .._fx.refusals import WholeGraph
from .._fx.returned_views import Views, chain_of
from .._native import C
from .._torch import compat, recurrent
from .._torch.kept_composites import (
    keep_composites,
    keep_recurrent,
    kept_resizes,
    traced_attention,
)
from .._torch.ranges import Ranges, compiled_for
from . import graph_file, writes
from .conditions import Conditions
from .signature import Argument, Signature

ENGINE_CLASS = "__torch__.torch.classes.torch_vulkan.Engine"
_execute = torch.ops.torch_vulkan.execute.default
aten = torch.ops.aten


def captured(model, arguments: Arguments | None, who: str) -> ExportedProgram:
    """What a user gave as a model, as an ExportedProgram; `who` begins messages.

    Raises:
        ValueError: it is no model, or its arguments are missing.
        UnsupportedError: as `export` does.
    """
    if isinstance(model, ExportedProgram):
        return model
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise ValueError(f"{who}: got {type(model).__name__}, want a torch.nn.Module, an "
                         "ExportedProgram" + " or a ScriptModule" * (who == "tv.compile"))
    if arguments is None:
        raise ValueError(f"{who}: inputs are missing: a list of tv.Input or tensors")
    return export(model, arguments, who)


def export(module: nn.Module, arguments: Arguments, who: str = "tv.compile") -> ExportedProgram:
    """The module as an ExportedProgram for these arguments.

    Raises:
        UnsupportedError: torch.export cannot capture it; the message holds its reason.
    """
    try:
        program = _captured(module, arguments, alike=False)
    except OUT_OF_MEMORY:
        raise
    except Exception as error:  # of many types: what the module's own code raises among them
        program = _captured_alike(module, arguments)
        if program is None:
            raise UnsupportedError(
                f"{who}: torch.export cannot capture {type(module).__name__}: {error}\n"
                + (arguments.like_shapes() or
                   "torch.compile(backend='vulkan') takes modules that need graph breaks; this one "
                   "needs a change before it can be compiled ahead of time")) from error
    program._example_inputs = pytree.tree_map_only(torch.Tensor, graph_file.hollow,
                                                   program.example_inputs)
    return program


def _captured(module: nn.Module, arguments: Arguments, alike: bool) -> ExportedProgram:
    device = next((p.device for p in [*module.parameters(), *module.buffers()]), "cpu")
    args, kwargs = arguments.examples(device, alike)
    shapes = torch.export.ShapesCollection()
    leaves = pytree.tree_leaves((args, kwargs))
    for given, tensor in zip(arguments.leaves(), leaves, strict=True):
        if isinstance(given, Input) and (dims := given.dynamic_dims()):
            shapes[tensor] = dims
    with torch.no_grad(), compat.sizes_of_one_apart(), keep_recurrent(), (
            _keywords_by_name(module, kwargs)):
        return torch.export.export(module, args, kwargs, strict=False,
                                   dynamic_shapes=shapes if len(shapes) else None)


def _captured_alike(module, arguments) -> ExportedProgram | None:
    """Where usual sizes differ that have to be equal, others out of their ranges may do."""
    if len({size for given in arguments.leaves() if isinstance(given, Input)
            for low, size, high in given.dims if low != high}) < 2:
        return None
    try:
        return _captured(module, arguments, alike=True)
    except OUT_OF_MEMORY:
        raise
    except Exception:  # the first one's is told
        return None


@contextlib.contextmanager
def _keywords_by_name(module: nn.Module, kwargs: dict):
    """torch.export finds no dynamic shapes behind `**kwargs`, so for its time forward's signature
    names each of them."""
    signature = inspect.signature(module.forward)
    kinds = {p.kind: p for p in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        yield
        return
    known = [p for p in signature.parameters.values() if p.kind != inspect.Parameter.VAR_KEYWORD]
    names = {p.name for p in known}
    known += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in kwargs
              if name not in names]
    forward, own = module.forward, "forward" in module.__dict__

    def named(*args, **given):
        return forward(*args, **given)

    named.__signature__ = signature.replace(parameters=known)
    module.forward = named
    try:
        yield
    finally:
        if own:
            module.forward = forward
        else:
            del module.forward


def check_scales(program: ExportedProgram) -> None:
    """Raises ValueError, naming the tensor, where a scale or zero point of a quantised tensor is
    not what quantised_scales.ScaleOf wants."""
    targets = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs
               if spec.target is not None}
    tensors = {**program.constants, **program.state_dict}

    def tensor_of(node):
        name = targets.get(node.name)
        return None if name is None else (name, tensors.get(name))

    quantised_scales.check_scales(program.graph, tensor_of)


def scale_names(program: ExportedProgram) -> dict[str, quantised_scales.ScaleOf]:
    """The program's tensors that are scales or zero points, and what is wanted of them."""
    targets = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
    return quantised_scales.scale_names(program.graph, lambda node: targets.get(node.name))


def _refuse_subclasses(program: ExportedProgram) -> None:
    """torch.export takes what is inside of a tensor of a subclass, but leaves the program's call
    as it was, with fewer arguments and results than the graph has then."""
    signature = program.graph_signature
    inputs = [("input", spec.arg.name, node) for spec, node in zip(
        signature.input_specs, program.graph.find_nodes(op="placeholder"), strict=True)
        if spec.kind == InputKind.USER_INPUT]
    results = [("result", str(i), node) for i, node in enumerate(_user_outputs(program))
               if isinstance(node, fx.Node)]
    for kind, name, node in (*inputs, *results):
        value = node.meta.get("val")
        if is_traceable_wrapper_subclass(value):
            raise UnsupportedError(
                f"{kind} {name} is a {type(value).__name__}: programs made ahead of time take and "
                "return plain tensors. torch.compile(backend='vulkan') runs it")


def _user_outputs(program: ExportedProgram) -> list:
    outputs = zip(program.graph_signature.output_specs, program.graph.output_node().args[0],
                  strict=True)
    return [node for spec, node in outputs if spec.kind == OutputKind.USER_OUTPUT]


def decompose(program: ExportedProgram) -> ExportedProgram:
    """In the operators that torch.compile hands to the backend.

    Raises UnsupportedError where tensors of subclasses go in or come out."""
    _refuse_subclasses(program)
    table, kept = torch.export.default_decompositions(), kept_resizes()
    composites = {op: table[op] for op in list(table.keys())
                  if op not in kept and torch._C._dispatch_has_kernel_for_dispatch_key(
                      op.name(), "CompositeImplicitAutograd")}
    composites[aten.scaled_dot_product_attention.default] = traced_attention
    composites |= recurrent.TRACED
    with torch.no_grad(), compat.sizes_of_one_apart(), keep_composites():
        lower = program.run_decompositions({**composites, **backend.decompositions()})
    four_bits.mark_decomposed(program, lower)
    lower = compat.without_effect_tokens(lower)
    compat.set_guards(lower, compat.without_sizes_of_one(
        [*compat.guards_of(program), *compat.guards_of(lower)]))
    program = lower
    for node in program.graph.find_nodes(op="call_function",
                                         target=aten._assert_tensor_metadata.default):
        program.graph.erase_node(node)  # the dtypes of a captured graph are what they are
    return program


def signature_of(program: ExportedProgram, given: list | None, choices=(),
                 whole=None) -> Signature:
    """How `program` is called. `given`: what the user said of each flattened argument, an Input or
    a tensor; None: nothing. `choices`: the same for each shape profile; symbols of which it
    says nothing have the ranges of `whole`."""
    user = [spec for spec in program.graph_signature.input_specs
            if spec.kind == InputKind.USER_INPUT]
    if given is not None and len(given) != len(user):
        raise ValueError(f"inputs: got {len(given)}, want {len(user)}")
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    arguments, ranges = [], {}
    for i, spec in enumerate(user):
        said = given[i] if given is not None else None
        name = said.name if isinstance(said, Input) and said.name else spec.arg.name
        value = nodes[spec.arg.name].meta.get("val")
        if not isinstance(value, torch.Tensor):
            arguments.append(Argument(name, value=getattr(spec.arg, "value", value)))
            continue
        dims = [d.node.expr if isinstance(d, torch.SymInt) and not d.node.is_constant() else int(d)
                for d in value.shape]
        if isinstance(said, (Input, torch.Tensor)):
            _take_ranges(name, dims, Input.of(said), ranges)
        arguments.append(Argument(name, value.dtype, dims))
    env = compat.shape_env_of(program.graph_module)
    for symbol in {s for a in arguments for d in a.dims if isinstance(d, sympy.Basic)
                   for s in d.free_symbols}:
        if whole is not None:
            ranges.setdefault(symbol, whole[symbol])
        elif symbol not in ranges:
            found = Ranges(env)
            low, high = found.bounds(symbol)
            # torch traces with 2 or more and lets 1 through all the same.
            ranges[symbol] = (1 if low == 2 else low or 0, found.usual(symbol), high)
    spec = program.call_spec
    call = program.module_call_graph[0].signature
    names = call.forward_arg_names if call and call.forward_arg_names else [
        f"arg_{i}" for i in range(spec.in_spec.child(0).num_children)]
    profiles = [signature_of(program, choice, whole=ranges).ranges for choice in choices]
    conditions = Conditions(program, list(names), spec.in_spec, [a.name for a in arguments])
    return Signature(arguments, ranges, spec.in_spec, spec.out_spec, list(names), profiles,
                     conditions)


def _take_ranges(name, dims, said: Input, ranges) -> None:
    if len(said.dims) != len(dims):
        raise ValueError(f"input {name!r}: got {len(said.dims)} dimensions, want {len(dims)}")
    for d, (dim, (low, opt, high)) in enumerate(zip(dims, said.dims, strict=True)):
        if isinstance(dim, int):
            if (low, high) != (dim, dim):
                raise ValueError(f"input {name!r} dimension {d}: got a range from {low} to {high}, "
                                 f"but the model works for {dim} only")
        elif isinstance(dim, sympy.Symbol):
            others = ranges.get(dim, (low, opt, high))
            # Dimensions that have to be equal: what both allow.
            low, high = max(low, others[0]), min(high, others[2])
            if low > high:
                raise ValueError(f"input {name!r} dimension {d} has to equal another, but their "
                                 f"ranges have no size in common")
            ranges[dim] = (low, min(max(others[1], low), high), high)


def module_of(program: ExportedProgram, signature: Signature) -> tuple[fx.GraphModule, set[str]]:
    """A copy of a decomposed program's graph, to change, whose leaves go by their names; and the
    names of the placeholders that are weights: all parameters, buffers and constants that it does
    not change."""
    module = fx.GraphModule(program.graph_module, copy.deepcopy(program.graph))
    mutated = {spec.target for spec in program.graph_signature.output_specs
               if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)}
    weights = {spec.arg.name for spec in program.graph_signature.input_specs
               if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
               and spec.target not in mutated}
    _name_leaves(module, program, signature)
    return module, weights


def compile_exported(program: ExportedProgram, signature: Signature, settings: Settings,
                     source: ExportedProgram, outputs=(), watch=None) -> ExportedProgram:
    """`program` (decomposed from `source`) with its blocks replaced by calls of engines. Weights
    stay its parameters and buffers. `outputs`: names for the results, where engines make them;
    `watch`: what is told where nothing is built.

    Raises as backend.compile_graph_module does.
    """
    with compiled_for(signature.sizes):
        return _compiled(program, signature, settings, source, outputs, watch)


def _compiled(program, signature, settings, source, outputs, watch) -> ExportedProgram:
    module, weights = module_of(program, signature)
    if settings.sparse_weights:
        _mark_sparse(module, program)
    try:
        refuse_overlaps(module.graph, set())  # arguments and buffers are looked at in each call
        refuse_resizes(module.graph)
    except WholeGraph as error:
        raise UnsupportedError(f"{error}: torch.compile(backend='vulkan') runs it") from None
    output = module.graph.output_node()
    output.args = (tuple(output.args[0]),)
    settings = settings.keyed_by([*program.state_dict.values()])
    for node, name in zip(output.args[0], outputs):
        node.meta["torch_vulkan_name"] = name
    shown = _written(program, module, source)
    changes = writes.write_last(program, module.graph)
    calls, failed = backend.build_engines(
        module, "inference", settings, weights, len(changes.left), watch,
        Views({changes.left.index(i): place for i, place in shown.items()}), ahead_of_time=True)
    return _assemble(program, module, calls, failed, signature, changes)


def _written(program: ExportedProgram, module: fx.GraphModule,
             source: ExportedProgram) -> dict[int, tuple[fx.Node, int]]:
    """result → the new value that it is, or a view of, and the buffer or argument whose value that
    is; results and arguments by position. `source` says it, which writes in place: the functional
    graph has one node for what is copied into a buffer and for the buffer afterwards."""
    signature, results = program.graph_signature, module.graph.output_node().args[0]
    places = {spec.arg.name if spec.kind == InputKind.USER_INPUT else spec.target: i
              for i, spec in enumerate(signature.input_specs)}
    given = {spec.target: results[i] for i, spec in enumerate(signature.output_specs)
             if spec.kind != OutputKind.USER_OUTPUT}
    targets = {spec.arg.name: spec.arg.name if spec.kind == InputKind.USER_INPUT else spec.target
               for spec in source.graph_signature.input_specs}
    own = [i for i, spec in enumerate(signature.output_specs)
           if spec.kind == OutputKind.USER_OUTPUT]
    found = {}
    for i, node in zip(own, _user_outputs(source), strict=True):
        target = isinstance(node, fx.Node) and targets.get(
            chain_of(node, through_writes=True)[-1].name)
        if target in given and isinstance(results[i], fx.Node) and (
                given[target] in chain_of(results[i])):
            found[i] = given[target], places[target]
    return found


def _name_leaves(module, program, signature) -> None:
    """Weights go by the module's names for them, inputs by the user's."""
    arguments = iter(signature.arguments)
    nodes = module.graph.find_nodes(op="placeholder")
    for spec, node in zip(program.graph_signature.input_specs, nodes, strict=True):
        name = next(arguments).name if spec.kind == InputKind.USER_INPUT else spec.target
        node.meta["torch_vulkan_name"] = name


def _mark_sparse(module, program) -> None:
    tensors = {**program.constants, **program.state_dict}
    nodes = module.graph.find_nodes(op="placeholder")
    for spec, node in zip(program.graph_signature.input_specs, nodes, strict=True):
        if spec.target in tensors:
            two_four.mark(node, tensors[spec.target])


def _assemble(program, module, calls, failed, signature, changes) -> ExportedProgram:
    placeholders = module.graph.find_nodes(op="placeholder")
    renamed = {spec.arg.name: node.name for spec, node in zip(
        program.graph_signature.input_specs, placeholders, strict=True)}
    specs = [replace(spec, arg=replace(spec.arg, name=renamed[spec.arg.name]))
             for spec in program.graph_signature.input_specs]
    first_user = next((i for i, s in enumerate(specs) if s.kind == InputKind.USER_INPUT),
                      len(specs))
    constants = dict(program.constants)
    before = placeholders[first_user] if first_user < len(placeholders) else next(
        node for node in module.graph.nodes if node.op != "placeholder")
    for call in calls:
        name = f"vulkan_{call.record.name}"
        with module.graph.inserting_before(before):
            node = module.graph.placeholder(f"obj_{name}")
        node.meta["val"] = CustomObjArgument(node.name, ENGINE_CLASS)
        specs.insert(first_user, InputSpec(InputKind.CUSTOM_OBJ, node.meta["val"], name))
        first_user += 1
        constants[name] = call.engine
        _inline_call(module, call, node)
    for name in failed:
        _inline_native(module, name)
    output_specs = writes.results_again(module.graph, changes)
    module.graph.lint()
    outputs = [
        replace(spec, target=renamed.get(spec.target, spec.target),
                arg=replace(spec.arg, name=value.name) if isinstance(value, fx.Node) else spec.arg)
        for spec, value in zip(output_specs, module.graph.output_node().args[0], strict=True)]
    ranges = dict(program.range_constraints)
    for symbol, (low, _, high) in signature.ranges.items():
        if symbol in ranges and high is not None:
            ranges[symbol] = torch.utils._sympy.value_ranges.ValueRanges(low, high)
    module = fx.GraphModule(module, module.graph)
    compiled = ExportedProgram(
        root=module, graph=module.graph, graph_signature=ExportGraphSignature(specs, outputs),
        state_dict=program.state_dict, range_constraints=ranges,
        module_call_graph=copy.deepcopy(program.module_call_graph[:1]),
        example_inputs=program.example_inputs, constants=constants,
        verifiers=compat.verifiers_of(program, bool(writes.written_in_place(module.graph))))
    # Not what the partitioner asked of sizes.
    compat.set_guards(compiled, compat.guards_of(program))
    return compiled


def _call_node(module: fx.GraphModule, name: str) -> fx.Node:
    (node,) = (n for n in module.graph.find_nodes(op="call_module") if n.target == name)
    return node


def _inline_call(module: fx.GraphModule, call, engine: fx.Node) -> None:
    """Replaces the call of a sub-module by nodes that run its engine."""
    graph = module.graph
    node = _call_node(module, call.record.name)
    values = [v.meta["val"] for v in call.native.graph.output_node().args[0]]
    with graph.inserting_before(node):
        inputs = [node.args[i] for i in call.input_positions]
        inputs += [_carrier(graph, node.args[i], bias) for i, bias in call.number_positions]
        weights = [node.args[i] for i in call.weight_positions]
        bindings = C.vke_info(split_vke(call.vke())[0])["inputs"]
        written = [n for n, b in zip(inputs, bindings, strict=True) if b["written"]]
        if written:
            inputs = [n for n, b in zip(inputs, bindings, strict=True) if not b["written"]]
            run = graph.call_function(writes.written_by, (inputs, written, weights, engine))
        else:
            run = graph.call_function(_execute, (inputs, weights, engine))
        casts = call.casts or [None] * len(values)
        stored = [v if d is None else v.to(NARROWED[d])
                  for v, d in zip(values, casts, strict=True)]
        run.meta["val"] = stored
        run.meta["stack_trace"] = node.meta.get("stack_trace")
        strides = dict(call.strides)
        results = []
        for i, value in enumerate(values):
            result = _node(graph, operator.getitem, (run, i), stored[i])
            if casts[i] is not None:
                result = _node(graph, aten._to_copy.default, (result,), value,
                               {"dtype": casts[i]})
            if call.device is not None:
                result = _node(graph, aten._to_copy.default, (result,), value,
                               {"device": call.device})
            if i in strides:
                result = _node(graph, aten.as_strided.default,
                               (result, list(value.shape), strides[i]), value)
            results.append(result)
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)
    delattr(module, call.record.name)


def _node(graph: fx.Graph, target, args, value, kwargs=None) -> fx.Node:
    node = graph.call_function(target, args, kwargs or {})
    node.meta["val"] = value
    return node


def _carrier(graph: fx.Graph, number, bias: int) -> fx.Node:
    """engine_call.carrier as nodes."""
    fake = next(n.meta["val"] for n in graph.nodes
                if isinstance(n.meta.get("val"), torch._subclasses.FakeTensor)).fake_mode
    value = number.meta["val"] if isinstance(number, fx.Node) else number
    size = number + bias if not isinstance(number, fx.Node) else (
        _node(graph, operator.add, (number, bias), value + bias) if bias else number)
    with fake:
        empty = torch.empty([value + bias, 0], dtype=torch.uint8)
    return _node(graph, aten.empty.memory_format, ([size, 0],), empty,
                 {"dtype": torch.uint8, "device": torch.device("cpu")})


def _inline_native(module: fx.GraphModule, name: str) -> None:
    """Replaces the call of a sub-module that has no engine by its own nodes."""
    graph, node, body = module.graph, _call_node(module, name), getattr(module, name)
    mapping = dict(zip(body.graph.find_nodes(op="placeholder"), node.args, strict=True))
    with graph.inserting_before(node):
        results = graph.graph_copy(body.graph, mapping)
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)
    delattr(module, name)
