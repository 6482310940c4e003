"""torch_vulkan: a compiler backend for PyTorch whose engines are Vulkan compute programs.

    fast = torch.compile(model, backend="vulkan")
"""

from . import cache, compilations, fake  # noqa: F401
from ._native import C as _C
from .cuda_memory import mem_pool
from .device_list import Device, cuda_report, devices
from .engine import Engine
from .errors import DeviceError, UnsupportedError
from .inputs import Input
from .profiling import Profile, profile
from .program import Program, compile, engines
from .refit import refit
from .registration import register
from .saving import load, save
from .settings import Settings

__version__ = "0.1.0"
__all__ = [
    "Device", "DeviceError", "Engine", "Input", "Profile", "Program", "Settings",
    "UnsupportedError", "compilations", "compile", "cuda_report", "devices", "engines", "load",
    "mem_pool", "profile", "refit", "save", "supported_ops",
]


def supported_ops() -> list[dict]:
    """The registry: operator, how it becomes kernels, notes."""
    return _C.supported_ops()


register()
