"""torch_vulkan: a compiler backend for PyTorch whose engines are Vulkan compute programs.

    fast = torch.compile(model, backend="vulkan")
"""

from pathlib import Path

from ._native import C as _C  # first: it refuses a torch that the libraries were not built against

# isort: split
from . import cache, compilations, fake, onnx  # noqa: F401
from .builder import Builder
from .cuda_memory import mem_pool
from .custom import custom_op, load_library
from .device_list import Device, cuda_report, devices
from .dry_run import dry_run
from .engine import Engine
from .errors import DeviceError, UnsupportedError
from .generation import generate
from .inputs import Input, Profile
from .profiling import profile
from .program import Program, compile, engines
from .quantisation import quantize
from .refit import refit
from .registration import register
from .saving import load, save
from .settings import Settings
from .validation import Validation, validate

__version__: str = _C.version
# For CMAKE_PREFIX_PATH: find_package(torch_vulkan) finds the libraries and headers of this package.
cmake_prefix_path = str(Path(__file__).parent)
__all__ = [
    "Builder", "Device", "DeviceError", "Engine", "Input", "Profile", "Program", "Settings",
    "UnsupportedError", "Validation", "cmake_prefix_path", "compilations", "compile",
    "cuda_report", "custom_op",
    "devices", "dry_run", "engines", "generate", "load", "load_library", "mem_pool", "onnx",
    "profile", "quantize", "refit", "save", "supported_ops", "validate",
]


def __dir__() -> list[str]:
    """The public names; the modules behind them are not."""
    return sorted([*__all__, "Config", "cache", "fake", "__version__"])


def __getattr__(name: str):
    if name == "Config":  # needs packages that nothing else does
        from .config import Config

        return Config
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def supported_ops() -> list[dict]:
    """The registry of operators that engines support.

    Returns:
        One dict for each operator, by name: `op` ("aten::add.Tensor"), `kind` ("pointwise",
        "kernel", "expand" or "view": how it becomes kernels), `is_compute` (False for views, which
        are free), `notes`, and for pointwise operators `function`, the row of the pointwise table.
    """
    return _C.supported_ops()


register()
