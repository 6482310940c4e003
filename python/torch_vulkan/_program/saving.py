"""tv.save and tv.load: compiled programs as files.

A .pt2 is a file of torch.export.save with two more entries: `torch_vulkan.json` says how the
program is called and with which settings it was compiled; `torch_vulkan_source` is the graph before
compilation, without its weights, to rebuild from where the engines do not run.
"""

import base64
import json
import os
import warnings
import zipfile
import zlib
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from .._aot import archive, exporting, graph_file, seal, torchscript
from .._aot.archive import ABOUT, FORMAT, SOURCE, portable
from .._base import whole_files
from .._base.errors import OUT_OF_MEMORY, memory_errors
from .._base.inputs import Input, is_leaf
from .._base.settings import Settings
from .._device import device_list
from .._engines.engine import built_elsewhere
from .._native import C
from .._script import programs
from .program import Program, compile_source

_VKE_MAGIC = b"\x8aTVKE"


def save(program: Program | torch.jit.ScriptModule, path: str | os.PathLike, *,
         output_format: str | None = None, inputs=None, arg_inputs=None, kwarg_inputs=None):
    """Writes a compiled program to a file, with its current weights.

    The file is written to a temporary file and renamed, so that a reader never sees half of it.
    Weights are stored once, even shared ones. The graph before compilation is stored beside the
    engines, so that `tv.load` can rebuild on a device where they do not run.

    Args:
        program: what tv.compile or tv.load returned.
        path: of the file.
        output_format: "exported_program" (.pt2; torch.export.load reads it, too) or "torchscript"
            (.pt; torch.jit.load reads it, too, in C++ without Python), whose inputs and outputs are
            tensors and tuples of tensors. None: as the suffix of `path` says, .pt2 (.ep) or .pt
            (.ts); "torchscript" for a TorchScript module, which has no other format.
        inputs, arg_inputs, kwarg_inputs: examples, for compatibility with other backends' `save`. A
            program knows its inputs; tensors that are given are checked against them.

    Raises:
        ValueError: `program` is something else, its inputs or outputs do not fit the format, the
            examples do not fit the program, or the suffix is that of another kind of file, or of
            none and no format is given.
        OSError: the file cannot be written.
    """
    from_script = programs.is_script(program)
    if not isinstance(program, Program) and not from_script:
        raise ValueError(f"tv.save: got {type(program).__name__}, want what tv.compile or tv.load "
                         "returned")
    _check_suffix(path)
    if inputs is not None and arg_inputs is not None:
        raise ValueError("tv.save: got inputs and arg_inputs, want one of them")
    _check_examples(program, arg_inputs if inputs is None else inputs, kwarg_inputs)
    output_format = output_format or ("torchscript" if from_script else _format_of(path))
    if output_format not in ("exported_program", "torchscript"):
        raise ValueError(f"output_format: got {output_format!r}, want 'exported_program' or "
                         "'torchscript'")
    if from_script and output_format != "torchscript":
        raise ValueError("output_format: a TorchScript module is saved as 'torchscript'")
    with whole_files.written(path, "tv.save") as file:
        if from_script:
            programs.save(program, file)
        else:
            archive.write(program, file, output_format)
        seal.close(file)


_OTHER_FILES = {
    ".onnx": "torch.onnx.export(model, …) writes the model that the program was compiled from, and "
             "tv.onnx.compile and vkexec read it",
    ".vke": "tv.engines(program)[0].save(path) writes an engine",
    ".safetensors": "safetensors.torch.save_file(program.state_dict(), path) writes the weights",
}


def _check_suffix(path) -> None:
    suffix = Path(path).suffix.lower()
    if suffix in _OTHER_FILES:
        raise ValueError(f"tv.save: {os.fspath(path)}: a compiled program is saved as .pt2 or .pt; "
                         f"{_OTHER_FILES[suffix]}")


_FORMATS = {".pt2": "exported_program", ".ep": "exported_program", ".pt": "torchscript",
            ".ts": "torchscript"}


def _format_of(path) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        whole_files.refuse_no_file(path, "tv.save")
        raise ValueError(f"tv.save: {os.fspath(path)}: the suffix says no format: want .pt2 "
                         "(torch.export's) or .pt (TorchScript), or output_format=")
    return _FORMATS[suffix]


def _check_examples(program, args, kwargs) -> None:
    if (args is None and kwargs is None) or not isinstance(program, Program):
        return
    args = [args] if isinstance(args, (torch.Tensor, Input)) else [*(args or [])]
    leaves = pytree.tree_leaves((args, kwargs or {}), is_leaf=is_leaf)
    if any(isinstance(value, Input) for value in leaves):
        return  # ranges, which the program has from its compilation
    program.signature.check(program.signature.flatten(tuple(args), kwargs or {}))


def load(path: str | os.PathLike, *, device: int | str | None = None,
         on_mismatch: str = "rebuild") -> Program | torch.jit.ScriptModule:
    """Reads a program that `tv.save` wrote, in either format.

    Nothing is built if the engines run on this machine's device. Load trusted files only: they
    contain code, for the device and (through torch's own formats) for this process.

    Args:
        path: of the file.
        device: index, part of a name or UUID; None: as the program was compiled.
        on_mismatch: what to do if the engines were built for another kind of device: "rebuild"
            compiles the stored graph for this one, with a warning that names both; "refuse" raises.
            The file of a TorchScript module has no such graph: it is refused either way.

    Returns:
        The program: a TorchScript module if it was compiled from one.

    Raises:
        ValueError: the file is something else, is damaged, or comes from a later version; or its
            engines do not run on this device and `on_mismatch` is "refuse".
        DeviceError: there is no Vulkan device.
    """
    if on_mismatch not in ("rebuild", "refuse"):
        raise ValueError(f"on_mismatch: got {on_mismatch!r}, want 'rebuild' or 'refuse'")
    path = Path(path)
    kind = _kind(path)
    if kind == "script":
        return programs.load(path, device)
    extra = {ABOUT: "", SOURCE: ""}
    try:
        with memory_errors():
            if kind == "torchscript":
                exported = torchscript.load(path, extra)
            else:
                exported = torch.export.load(path, extra_files=extra)
    except OUT_OF_MEMORY:
        raise
    except Exception as error:
        about = _read_about(path, kind)
        raise ValueError(
            f"{path} cannot be read by torch {torch.__version__}: {error}. It was saved with "
            f"torch {about.get('torch', '(unknown)')}; save it again with this version, or copy it "
            "again if it is damaged") from error
    about = _checked(extra[ABOUT], path)
    settings = Settings.from_json(about["settings"])
    if device is not None:
        settings = settings.replaced(device=Settings.from_options({"device": device}).device)
    source = _unpacked(extra[SOURCE])
    given = [_input(argument) for argument in about["arguments"]]
    choices = [[_input(argument) for argument in choice] for choice in about["profiles"]]
    return _opened(exported, given, choices, settings, source, path, on_mismatch,
                   device is not None)


def _kind(path: Path) -> str:
    """"torchscript", "exported_program", or "script" for what was compiled from a TorchScript
    module; raises for anything else."""
    if not path.exists():
        raise FileNotFoundError(f"tv.load: {path} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"tv.load: {path} is a directory, want a .pt2 or .pt file that "
                                "tv.save wrote")
    with open(path, "rb") as file:
        if file.read(len(_VKE_MAGIC)) == _VKE_MAGIC:
            raise ValueError(f"{path} is a single engine: tv.Engine.load reads it")
    try:
        with zipfile.ZipFile(path) as archive:
            # Engines are archives too: one may be all that is whole in a file that was cut short.
            if min((item.header_offset for item in archive.infolist()), default=0) > 0:
                raise zipfile.BadZipFile("its directory of files is missing")
            names = [name.split("/", 1)[-1] for name in archive.namelist()]
            code = b"".join(archive.read(name) for name in archive.namelist()
                            if "/code/" in name and name.endswith(".py"))
        if fault := seal.fault(path):
            raise zipfile.BadZipFile(fault)
    except OUT_OF_MEMORY:
        raise
    except Exception as error:  # of many types, for an archive may be damaged in many ways
        raise ValueError(f"{path} is no .pt2 or .pt file, or it is damaged or was cut short "
                         f"({error}): copy it again, or save the program again") from error
    if any(name.startswith("extra/" + programs.ABOUT) for name in names) or (
            programs.MARK.encode() in code):
        return "script"
    if torchscript.KEPT.encode() in code:  # torch.jit.save leaves out who wrote it first
        return "torchscript"
    if any(name.startswith("extra/" + ABOUT) for name in names):
        is_script = any(name.startswith("code/") for name in names)
        return "torchscript" if is_script else "exported_program"
    if any(name.startswith("models/") or name == "serialized_exported_program.json"
           for name in names):
        raise ValueError(f"{path} is an ExportedProgram without engines: "
                         "tv.compile(torch.export.load(path)) makes some")
    if any(name.startswith("code/") for name in names):
        raise ValueError(f"{path} is a TorchScript module that tv.save did not write: "
                         "torch.jit.load reads it")
    if "data.pkl" in names:
        raise ValueError(f"{path} is a torch checkpoint: compile the module, then "
                         "tv.refit(program, torch.load(path)) gives it these weights")
    raise ValueError(f"{path} is a zip archive that tv.save did not write; want a .pt2 or .pt file")


def _read_about(path: Path, kind: str) -> dict:
    """What a file that torch cannot read says about itself; raises if its format is later than this
    version."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(n for n in archive.namelist() if n.endswith("extra/" + ABOUT))
            return _checked(archive.read(name).decode(), path)
    except (zipfile.BadZipFile, zlib.error, UnicodeDecodeError):
        return {}


def _checked(text: str, path: Path) -> dict:
    try:
        about = json.loads(text)
        version = about["format"]
        if version == FORMAT and all(isinstance(about[key], list)
                                     for key in ("arguments", "profiles")):
            return about
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: what it says of itself cannot be read; copy it "
                         "again, or save the program again") from error
    raise ValueError(f"{path} has format version {version}, this torch_vulkan reads version "
                     f"{FORMAT}: upgrade torch_vulkan, or save the program again")


def _input(argument: dict | None) -> Input | None:
    if argument is None or argument["dims"] is None:
        return None
    low, opt, high = zip(*argument["dims"], strict=True) if argument["dims"] else ((), (), ())
    return Input(min_shape=low, opt_shape=opt, max_shape=high, name=argument["name"],
                 dtype=getattr(torch, argument["dtype"].removeprefix("torch.")))


def _opened(exported, given, choices, settings, source, path, on_mismatch,
            other_device) -> Program:
    exported._state_dict = _retied(exported.state_dict)
    signature = exporting.signature_of(exported, given, choices)
    engines = [value for value in exported.constants.values()
               if isinstance(value, torch.ScriptObject)]
    profile = C.device_profile(device_list.spec_for(settings.device, torch.device("cpu")))
    wrong = built_elsewhere(engines, profile)
    if wrong is None:
        if other_device:
            exported._constants = {name: portable(value, settings)
                                   for name, value in exported.constants.items()}
        for engine in () if other_device else engines:
            engine.set_weight_budget(settings.weight_budget)  # is not in the engine's state
        return Program(exported, signature, settings, source)
    sides = f"{path} {wrong}"
    if on_mismatch == "refuse":
        raise ValueError(f"{sides}. Load it with on_mismatch='rebuild', or compile it here")
    if source is None:
        raise ValueError(f"{sides}. The file holds no graph to build from: compile it here")
    warnings.warn(f"torch_vulkan: {sides}. Its engines are built again; save the program here to "
                  "do so once", stacklevel=3)
    program = graph_file.unpack(source)
    program._state_dict = {name: exported.state_dict[name] for name in program.state_dict}
    program._constants = {name: exported.constants.get(name, value)
                          for name, value in program.constants.items()}
    return compile_source(program, given, settings, choices)


def _retied(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Makes names that share memory one tensor again, as in the compiled module."""
    seen: dict = {}
    tied = {}
    for name, tensor in state.items():
        key = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape,
               tensor.stride(), tensor.dtype)
        tied[name] = seen.setdefault(key, tensor) if tensor.numel() else tensor
    return tied


def _unpacked(text: str) -> bytes | None:
    return base64.b64decode(text) if text else None
