"""torch_vulkan: a compiler backend for PyTorch whose engines are Vulkan compute programs.

    fast = torch.compile(model, backend="vulkan")
"""

from . import compilations, fake  # noqa: F401
from ._native import C as _C
from .device_list import Device, devices
from .engine import Engine
from .errors import DeviceError, UnsupportedError
from .inputs import Input
from .program import Program, compile, engines
from .refit import refit
from .registration import register
from .saving import load, save
from .settings import Settings

__version__ = "0.1.0"
__all__ = [
    "Device", "DeviceError", "Engine", "Input", "Program", "Settings", "UnsupportedError",
    "compilations", "compile", "devices", "engines", "load", "refit", "save",
    "supported_ops",
]


def supported_ops() -> list[dict]:
    """The registry: operator, how it becomes kernels, notes."""
    return _C.supported_ops()


register()
