"""What tv.save writes of a program: the program as PyTorch's own formats have it, and two files
more that say how it is called and what it was compiled from (saving.py)."""

import base64
import json

import torch

from .. import background
from ..settings import Settings
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
        torchscript.save(exported, program.signature, file, extra)
    else:
        torch.export.save(exported, file, extra_files=extra)


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
    return torch.classes.torch_vulkan.Engine(value.vke(), str(settings.device or ""),
                                             settings.immutable_weights,
                                             settings.truncate_long_and_double)
