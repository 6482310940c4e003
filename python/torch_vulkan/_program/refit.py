"""tv.refit: replaces the weights of a program."""

import os
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import fx, nn
from torch.export import ExportedProgram

from .._aot import staging
from .._base.errors import memory_errors
from .._base.packed_groups import missing_parts
from .._base.setting_checks import nearest
from .._fx.quantised_scales import ScaleOf, scale_names
from .._quantised.modules import Quantized
from .._script import programs
from .._torch import shared_memory
from .program import Program

# One after the other: of two at a time, one's weights could stand beside the other's packed forms.
_turn = threading.Lock()


def refit(program: nn.Module, weights) -> None:
    """Replaces weights of a program in place, without a rebuild, in time proportional to the bytes
    that change.

    Everything is checked before anything changes, and after any error the old weights are still in
    effect. Weights that `weights` does not name stay. Packed and folded forms of the changed
    weights are recomputed before this returns, even where torch cannot notice a change (`.data`,
    NumPy views): `tv.refit(program, program.state_dict())` reads all weights again.

    Args:
        program: what tv.compile or tv.load returned; or a module behind torch.compile, whose
            tensors are changed so that its engines notice at their next call.
        weights: name → tensor or array; a module or an ExportedProgram, whose parameters and
            buffers are taken; or the path of a .safetensors file.

    Raises:
        ValueError: a name is unknown, a shape or dtype differs, tied weights are given different
            values, a quantised weight is given without its scales or zero points (or they without
            it), a scale is zero, negative, infinite or NaN, the file is invalid, or the program has
            immutable weights.
        MemoryError, torch.OutOfMemoryError: there is no memory for the new weights.
    """
    module = getattr(program, "_orig_mod", program)
    if not isinstance(module, nn.Module):
        raise ValueError(f"tv.refit: got {type(program).__name__}, want what tv.compile or tv.load "
                         "returned")
    if isinstance(module, Program) and module.settings.immutable_weights:
        raise ValueError("tv.refit: the program was compiled with immutable_weights=True; compile "
                         "it without that setting")
    tensors = _tensors_of(module)
    given = _given(weights, tensors)
    with _turn, memory_errors():
        _change(module, tensors, given)


def _change(module: nn.Module, tensors: dict[str, torch.Tensor], given: Mapping) -> None:
    changes = _checked(tensors, given)
    _check_whole(tensors, given)
    _check_scales(module, given)
    if any(value.data_ptr() != tensor.data_ptr() for tensor, value in changes):
        _warn_of_ranges(module)
    changes += shared_memory.shadows(tensors, changes)
    engines = _engines_of(module)
    # What may fail comes before the first weight changes, and a copy of the old ones is not needed.
    staged = staging.stage(engines, changes)
    try:
        _assign(changes)
    except BaseException:
        staging.discard(staged)
        raise
    staging.commit(staged)


def _check_whole(tensors, given) -> None:
    """Raises ValueError where elements would be read with the scales of others."""
    found = missing_parts(given, tensors)
    if found:
        name, missing = found
        raise ValueError(f"tv.refit: {name!r} is a part of a quantised weight, of which "
                         f"{', '.join(map(repr, missing))} "
                         f"{'is' if len(missing) == 1 else 'are'} not given: elements, scales and "
                         "zero points change together (give the program's own where one stays)")


def _check_scales(module: nn.Module, given) -> None:
    """Raises ValueError, naming it, for a scale or zero point that is not what is wanted of it."""
    for name, wanted in _scales_of(module).items():
        if name in given:
            wanted.check(name, _tensor(name, given[name]))


def _scales_of(module: nn.Module) -> dict[str, ScaleOf]:
    """The tensors that are scales or zero points, and what is wanted of them."""
    if isinstance(module, Program):
        return module.scale_names()
    found = {}
    for path, part in module.named_modules():
        prefix = f"{path}." if path else ""
        if isinstance(part, Quantized):
            found[prefix + "weight_scale"] = ScaleOf(part.scale_format)
            found[prefix + "weight_tensor_scale"] = ScaleOf()
        elif isinstance(part, fx.GraphModule):
            own = scale_names(part.graph,
                              lambda node: node.target if node.op == "get_attr" else None)
            found |= {prefix + name: wanted for name, wanted in own.items()}
    return found


def _warn_of_ranges(module: nn.Module) -> None:
    settings = module.settings if isinstance(module, Program) else None
    if settings is not None and settings.permits_int8 and settings.calibration is not None:
        warnings.warn("torch_vulkan: the ranges of this program's int8 activations stay those of "
                      "its calibration, while weights are quantised anew: where activations grow "
                      "beyond them, call tv.calibrate and compile again", stacklevel=4)


def _engines_of(module: nn.Module) -> list[tuple]:
    """(engine, its weights) of a program; nothing for a module behind torch.compile."""
    if isinstance(module, Program):
        return module.engines_and_weights()
    return [*programs.engines_of(module).values()] if programs.is_script(module) else []


def _assign(changes) -> None:
    tensors, values = [tensor for tensor, _ in changes], [value for _, value in changes]
    with torch.no_grad():
        torch.ops.torch_vulkan.assign(tensors, values)


def _tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers(remove_duplicate=False))}


def _given(weights, tensors) -> Mapping[str, object]:
    """name → value; `tensors`: those of the program. Buffers that no state dict contains are taken,
    too."""
    if isinstance(weights, ExportedProgram):
        names = weights.graph_signature.non_persistent_buffers
        buffers = {name: weights.constants[name] for name in names if name in weights.constants}
        return {**weights.state_dict, **_known(buffers, tensors)}
    if isinstance(weights, nn.Module):
        weights = getattr(weights, "_orig_mod", weights)
        buffers = dict(weights.named_buffers(remove_duplicate=False))
        return {**weights.state_dict(), **_known(buffers, tensors)}
    if isinstance(weights, (str, os.PathLike)):
        weights = _read(Path(weights))
    if isinstance(weights, Mapping):
        return _without_prefix(weights, tensors)
    raise ValueError(f"tv.refit: got weights as {type(weights).__name__}, want a dict, a module, "
                     "an ExportedProgram or the path of a .safetensors file")


def _known(buffers, tensors) -> dict:
    return {name: buffer for name, buffer in buffers.items() if name in tensors}


def _without_prefix(weights: Mapping, tensors) -> Mapping:
    """Removes `_orig_mod.`, which torch.compile puts into names."""
    return {name if name in tensors else str(name).replace("_orig_mod.", ""): value
            for name, value in weights.items()}


def _read(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.exists():
        raise FileNotFoundError(f"tv.refit: {path} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"tv.refit: {path} is a directory, want a .safetensors file")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"tv.refit: {path} is no .safetensors file, or it is damaged ({error}); a checkpoint "
            "of torch.save is read with torch.load(path, weights_only=True)") from error


def _tensor(name, value) -> torch.Tensor:
    try:
        return torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"tv.refit: weight {name!r}: got {type(value).__name__}, want a tensor or "
                         f"an array ({error})") from None


def _checked(tensors, given) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(tensor of the program, its new value), each once."""
    changes: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for name, value in given.items():
        if name not in tensors:
            near = nearest(str(name), tensors)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ValueError(f"tv.refit: the program has no weight {name!r}{hint}")
        tensor, value = tensors[name], _tensor(name, value)
        if value.is_meta or value.layout != torch.strided:
            raise ValueError(f"tv.refit: weight {name!r}: got a tensor without data of its own "
                             f"({value.device}, {value.layout}), want a dense one")
        if tensor.is_inference() and not torch.is_inference_mode_enabled():
            raise ValueError(f"tv.refit: weight {name!r} is an inference tensor, which changes in "
                             "torch.inference_mode() only")
        if value.shape != tensor.shape or value.dtype != tensor.dtype:
            raise ValueError(f"tv.refit: weight {name!r}: got {value.dtype} {list(value.shape)}, "
                             f"want {tensor.dtype} {list(tensor.shape)}")
        if not shared_memory.has_its_own_elements(tensor):
            raise ValueError(f"tv.refit: elements of weight {name!r} share memory (strides "
                             f"{list(tensor.stride())}) and cannot be written one by one: give the "
                             "module a contiguous one and compile it again")
        _, before = changes.setdefault(id(tensor), (tensor, value))
        if before is not value and not shared_memory.same_bits(before, value):
            raise ValueError(f"tv.refit: weight {name!r} is one tensor with another that is given "
                             "a different value")
    # A weight may be given another's old value.
    own = {tensor.untyped_storage().data_ptr() for tensor, _ in changes.values()}
    return [(tensor, value if value.untyped_storage().data_ptr() not in own or
             value.data_ptr() == tensor.data_ptr() else value.clone())
            for tensor, value in changes.values()]
