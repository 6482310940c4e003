"""What tv.save writes of a program: the program as PyTorch's own formats have it, and two files
more that say how it is called and what it was compiled from (_program/saving.py)."""

import base64
import io
import json

import torch
from torch.export import ExportedProgram

from .._base.settings import Settings
from .._engines import background
from . import torchscript
from .signature import Signature

FORMAT = 1
ABOUT, SOURCE = "torch_vulkan.json", "torch_vulkan_source"


def write(program, file, output_format: str) -> None:
    """Writes a Program to a file object, once its engines are tuned. Raises as tv.save does."""
    extra = {ABOUT: json.dumps(_about(program))}
    if (source := program.source_bytes()) is not None:
        extra[SOURCE] = base64.b64encode(source).decode()
    background.wait_for(program.engine_objects().values())
    exported = program.exported_program()
    exported._constants = {name: portable(value, program.settings)
                           for name, value in exported.constants.items()}
    if output_format == "torchscript":
        torchscript.save(exported, program.signature, file, extra, shown=ABOUT)
    else:
        _refuse_unreadable(exported)
        kept = _FailsLater(file)
        torch.export.save(exported, kept, extra_files=extra)
        if kept.error is not None:
            raise kept.error


class _FailsLater(io.RawIOBase):
    """A file to write whose first failure is kept, and what is written behind it is lost: PyTorch's
    writer of archives writes in its destructor, where an exception ends the process."""

    def __init__(self, file):
        self.file, self.error = file, None

    def writable(self):
        return True

    def seekable(self):
        return True

    def write(self, data):
        self._try(self.file.write, data)
        return len(data)

    def seek(self, *where):
        return self._try(self.file.seek, *where) or 0

    def _try(self, function, *arguments):
        if self.error is None:
            try:
                return function(*arguments)
            except OSError as error:
                self.error = error
        return None


def _refuse_unreadable(exported: ExportedProgram) -> None:
    """Raises ValueError for what torch.export writes and cannot read back."""
    for i, spec in enumerate(exported.graph_signature.output_specs):
        if isinstance(value := getattr(spec.arg, "value", None), str):
            raise ValueError(f"tv.save: result {i} is the string {value!r}, which torch.export "
                             "cannot read back; return it from code around the program")
    written = torch.ops.torch_vulkan.execute_written.default
    for node in exported.graph.find_nodes(op="call_function", target=written):
        if not node.users:
            raise ValueError("tv.save: an engine of the program gives nothing but arguments that "
                             "it writes, which torch.export cannot read back; return another "
                             "value, too, or save with output_format='torchscript'")


def _about(program) -> dict:
    signature = program.signature
    profiles = [_described(signature, {**signature.ranges, **profile})
                for profile in signature.profiles]
    return {"format": FORMAT, "torch": torch.__version__, "settings": program.settings.to_json(),
            "arguments": _described(signature, signature.ranges), "profiles": profiles}


def _described(signature: Signature, ranges) -> list[dict | None]:
    """What Inputs say of the arguments, JSON-able; None for a plain value."""
    described = []
    for argument in signature.arguments:
        dims = [[dim] * 3 if isinstance(dim, int) else list(ranges.get(dim, [None] * 3))
                for dim in argument.dims]
        known = all(isinstance(size, int) for dim in dims for size in dim)
        described.append(argument.dtype and {"name": argument.name, "dtype": str(argument.dtype),
                                             "dims": dims if known else None})
    return described


def portable(value, settings: Settings):
    """An engine without the name of the device that this machine runs it on."""
    if not isinstance(value, torch.ScriptObject):
        return value
    engine = torch.classes.torch_vulkan.Engine(value.vke(), str(settings.device or ""),
                                               settings.immutable_weights,
                                               settings.truncate_long_and_double)
    engine.set_weight_budget(settings.weight_budget)
    return engine
