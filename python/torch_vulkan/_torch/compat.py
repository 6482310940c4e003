"""What differs between the versions of torch that are supported, 2.11 to 2.15."""

import contextlib
import sys

import sympy
import torch

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))


def scans_are_pointwise_on_cpus() -> bool:
    """Whether associative_scan takes combine_mode="pointwise", its default, for tensors on the CPU;
    before, it raises for them."""
    return TORCH >= (2, 14)


def without_effect_tokens(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with its checks (aten._linalg_check_errors, …) called plainly: decomposition
    chains them by tokens, which are not tensors."""
    from torch.export._remove_effect_tokens_pass import _remove_effect_tokens

    return _remove_effect_tokens(program)


def shape_env_of(module: torch.fx.GraphModule):
    """The environment of a graph's symbols; None if it has none."""
    for node in module.graph.nodes:
        value = node.meta.get("val")
        for item in value if isinstance(value, (tuple, list)) else (value,):
            dims = item.shape if isinstance(item, torch.Tensor) else (item,)
            for dim in dims:
                if isinstance(dim, torch.SymInt):
                    return dim.node.shape_env
    return None


def guards_of(program: torch.export.ExportedProgram) -> list[str]:
    """What torch.export found out about sizes beside their ranges, as expressions over L['x']."""
    return getattr(program, "_guards_code", None) or []


def sizes_of_one_apart():
    """A context in which a capture does not note where PyTorch itself asks whether a size is 1, as
    it does to lay out memory."""
    from torch.fx.experimental import _config

    return _config.patch(backed_size_oblivious=True)


def without_sizes_of_one(guards: list[str]) -> list[str]:
    """Guards without those that say "not 1": a size of 1 runs the graph of larger ones."""
    return [text for text in guards if not text.endswith(" != 1") or "%" in text]


def set_guards(program: torch.export.ExportedProgram, guards: list[str]) -> None:
    program._guards_code = [*dict.fromkeys(guards)]


def verifiers_of(program: torch.export.ExportedProgram, writes: bool) -> list:
    """What checks a program made of `program`; `writes`: some of its operators work in place."""
    from torch._export.verifier import TrainingIRVerifier

    return [TrainingIRVerifier] if writes else program.verifiers


def depends_on_data(value) -> bool:
    """True if a SymInt or a tensor's shape is known only when the graph runs."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols(value))


def allows_guards(value) -> bool:
    """False if a SymInt, or a part of it, is known only when the graph runs, or is known from the
    tensor that an argument is a view of, and from nothing else: Dynamo cannot ask for that, and
    fails where it is to."""
    if not isinstance(value, torch.SymInt):
        return True
    of_symbols = [value.node.shape_env.var_to_sources.get(symbol, ())
                  for symbol in value.node.expr.free_symbols]
    return not depends_on_data(value) and not any(
        sources and all("._base" in _name_of(source) for source in sources)
        for sources in of_symbols)


def _name_of(source) -> str:
    return source.name() if callable(source.name) else source.name  # a property from torch 2.13 on


def through_dynamo(error: Exception) -> Exception:
    """`error` as an exception that Dynamo hands on as it is, still of its own type: a ValueError
    stays a ValueError rather than becoming BackendCompilerFailed."""
    from torch._dynamo.exc import ShortenTraceback

    base = type(error)
    if isinstance(error, ShortenTraceback):
        return error
    try:
        handed_on = type(base.__name__, (ShortenTraceback, base),
                         {"__module__": base.__module__})
        return handed_on(str(error), first_useful_frame=None)
    except TypeError:
        return error


def range_of(size: torch.SymInt):
    """What values a captured size has by the guards of its capture; `in` asks."""
    return size.node.shape_env.bound_sympy(size.node.expr)


def is_for_dynamo(error: Exception) -> bool:
    """True for what is raised to reach Dynamo or the user as it is: errors of this package, which
    `through_dynamo` has made, Dynamo's own, and its demands to trace again."""
    from torch._dynamo.exc import TensorifyScalarRestartAnalysis, TorchDynamoException

    return isinstance(error, (TorchDynamoException, TensorifyScalarRestartAnalysis))


def no_fake_mode():
    """A context in which tensors that are made are real."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    return unset_fake_temporarily()


@contextlib.contextmanager
def as_called_alone():
    """A context in which operators do to tensors what they do in a program without modes: no
    tracing, no autocast, no gradients, no overrides."""
    from torch.utils._python_dispatch import _disable_current_modes

    with (_disable_current_modes(), torch._C._DisableTorchDispatch(),
          torch._C.DisableTorchFunction(), torch._C._DisableAutocast(), torch.no_grad()):
        yield


def views_by_their_facts():
    """A context in which AOTAutograd makes what is a view of an argument, or of another result, by
    size, strides and offset. Without, it repeats operators, from another base than theirs where
    arguments overlap or a view was changed in place (torch 2.13): an error, or another view."""
    from torch._functorch import config

    return config.patch(view_replay_for_aliased_outputs=False)


def keep_what_is_saved() -> None:
    """Lets the backward graph of the graph that AOTAutograd hands to the compiler now run more than
    once. AOTAutograd counts on compilers that give away memory of what was saved for it (torch
    2.13: an error where `backward(create_graph=True)` is part of the program); engines do not."""
    context = torch._guards.TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []


def replay_views_where_facts_fail(graph) -> None:
    """Inside views_by_their_facts: undoes it for the graph that AOTAutograd hands to the compiler
    now, where its facts are of no use: elements of another type; an argument whose own sizes and
    strides the program changes; one that has gradients and elements in one place (expanded), as
    as_strided's backward gives each of those the mean of their gradients; gradients of as_strided,
    which by the program pass by what lies outside of the view that it was taken of; conjugated and
    negated views, which sizes and strides do not tell from others."""
    from torch._functorch import config

    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return

    def calls(operator):
        return bool(graph.find_nodes(op="call_function", target=operator))

    aten = torch.ops.aten
    given = [n.meta["val"] for n in graph.find_nodes(op="placeholder")]
    gradients = any(info.requires_grad for info in metadata.input_info)
    expanded = any(map(_is_expanded, given))
    if any(info.mutates_metadata for info in metadata.input_info) or any(
            map(calls, (aten.view.dtype, aten.view_as_complex.default, aten._conj.default,
                        aten._neg_view.default))) or any(
            isinstance(v, torch.Tensor) and (v.is_conj() or v.is_neg()) for v in given) or (
            gradients and (expanded or calls(aten.as_strided.default))):
        config.view_replay_for_aliased_outputs = True


def _is_expanded(value) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and any(
        isinstance(stride, int) and stride == 0 for stride in value.stride())


def writes_to_arguments() -> bool:
    """Whether the graph that AOTAutograd traced last writes to one of its arguments."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return metadata is None or any(info.mutates_data for info in metadata.input_info)


def static_inputs() -> tuple[set[int], set[int]]:
    """Positions of the graph's inputs that are parameters or buffers, and of those that the graph
    changes, of the graph that AOTAutograd hands to the compiler now."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return set(), set()
    mutated = {i for i, info in enumerate(metadata.input_info)
               if info.mutates_data or info.mutates_metadata}
    return set(metadata.static_input_indices or ()), mutated


def views_of_arguments(kind: str, graph) -> tuple[dict[int, int], dict[int, int]]:
    """By position: result → argument, of results that AOTAutograd makes anew as views of arguments,
    with the strides and the offset that the graph's result has; argument → the result that is
    copied over it behind the graph."""
    metadata, first = _outputs_in_order(kind, graph)
    if metadata is None:
        return {}, {}
    views = {first + i: info.base_idx for i, info in enumerate(metadata.output_info)
             if info.output_type.name == "alias_of_input"}
    return views, {a: i for i, a in enumerate(metadata.mutated_inp_runtime_indices)}


def views_laid_out_otherwise(kind: str, graph) -> set[int]:
    """Positions of results that AOTAutograd makes anew as views, by the strides and the offset that
    the graph's result has, which are not those that the view has in the program."""
    metadata, first = _outputs_in_order(kind, graph)
    results = graph.output_node().args[0]
    found = set()
    for i, info in enumerate(metadata.output_info if metadata is not None else ()):
        said = getattr(info, "view_meta_sequence", None)
        value = getattr(results[first + i], "meta", {}).get("val")
        if said is None or said.metadata.stride is None or not isinstance(value, torch.Tensor):
            continue
        sides = [(s.val, stride) for s, stride, size in zip(
            said.metadata.stride, value.stride(), value.shape, strict=True)
            if not (isinstance(size, int) and size < 2)]
        if info.output_type.name == "alias_of_input":
            sides.append((said.metadata.storage_offset.val, value.storage_offset()))
        else:  # of a base with the strides that its operator has in this graph
            sides = [side for side in sides if any(isinstance(s, int) and s == 0 for s in side)
                     or side[0] == 0]
        if any(sympy.expand(a - (b.node.expr if isinstance(b, torch.SymInt) else b)) != 0
               for a, b in sides):
            found.add(first + i)
    return found


def views_of_autograd(kind: str, graph) -> set[int]:
    """Positions of results that autograd itself makes views of an argument or of another result,
    as they come out of the forward graph: those of operators with several results (`chunk`), which
    nobody may write to. Of other views AOTAutograd tells it behind the graph."""
    metadata, first = _outputs_in_order(kind, graph, of_other_shapes=True)
    if metadata is None or kind != "forward":
        return set()
    return {first + i for i, info in enumerate(metadata.output_info)
            if info.output_type.name == "non_alias" and info.requires_grad}


def _outputs_in_order(kind: str, graph, of_other_shapes: bool = False):
    """AOTAutograd's metadata of the graph that it hands to the compiler now, and the position of
    the program's first result; None if arguments and results are not those of the program, or an
    argument gets another shape in place and not `of_other_shapes`."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None or kind == "backward" or metadata.tokens or not of_other_shapes and any(
            info.mutates_metadata for info in metadata.input_info):
        return None, 0
    arguments, results = graph.find_nodes(op="placeholder"), graph.output_node().args[0]
    # Tensors of subclasses are several arguments and results.
    if len(metadata.input_info) != len(arguments) or (
            kind == "inference" and metadata.num_forward != len(results)):
        return None, 0
    return metadata, metadata.num_mutated_inp_runtime_indices


def user_outputs(kind: str) -> int:
    """How many results of the graph that AOTAutograd compiles now go to the caller; those after
    them are kept for the backward graph."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return sys.maxsize if kind != "forward" or metadata is None else metadata.num_forward


def attribute_of(module: torch.nn.Module, path: str, *default):
    """The attribute "a.b.c" of a module."""
    try:
        for name in path.split("."):
            module = getattr(module, name)
        return module
    except AttributeError:
        if default:
            return default[0]
        raise


def set_attribute(module: torch.nn.Module, path: str, value) -> None:
    """Sets the attribute "a.b.c" of a module."""
    *outer, name = path.split(".")
    setattr(attribute_of(module, ".".join(outer)) if outer else module, name, value)
