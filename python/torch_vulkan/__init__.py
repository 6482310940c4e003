"""torch_vulkan: a compiler backend for PyTorch whose engines are Vulkan compute programs.

    fast = torch.compile(model, backend="vulkan")
"""

import importlib
from pathlib import Path

from ._native import C as _C  # first: it refuses a torch that the libraries were not built against

# isort: split
from . import cache, compilations, fake, onnx  # noqa: F401
from .background import wait_for_tuning
from .builder import Builder
from .calibration import Calibration, calibrate
from .comparison import Comparison, compare
from .cuda_memory import mem_pool
from .custom import custom_op, load_library
from .decoder_saving import save_decoder
from .device_list import (
    Device,
    cuda_report,
    devices,
    memory_stats,
    release_memory,
    reset_peak_memory_stats,
)
from .dry_run import dry_run
from .engine import Engine
from .errors import DeviceError, UnsupportedError
from .generation import generate
from .graph_export import export_graph
from .graph_import import build_graph
from .inputs import Input, Profile
from .profiling import profile
from .program import Program, compile, engines
from .quantisation import quantize
from .refit import refit
from .registration import register as _register_backend
from .saving import load, save
from .settings import Settings
from .validation import Validation, validate

__version__: str = _C.version
# For CMAKE_PREFIX_PATH: find_package(torch_vulkan) finds the libraries and headers of this package.
cmake_prefix_path = str(Path(__file__).parent)
__all__ = [
    "Builder", "Calibration", "Comparison", "Device", "DeviceError", "Engine", "Input", "Profile",
    "Program", "Settings", "UnsupportedError", "Validation", "build_graph", "calibrate",
    "cmake_prefix_path", "compare", "compilations", "compile", "cuda_report", "custom_op",
    "devices", "dry_run", "engines", "export_graph", "generate", "load", "load_library",
    "mem_pool", "memory_stats", "onnx", "profile", "quantize", "refit", "release_memory",
    "reset_peak_memory_stats", "save", "save_decoder", "supported_ops",
    "validate", "wait_for_tuning",
]


def __dir__() -> list[str]:
    """The public names; the modules behind them are not."""
    return sorted([*__all__, *_ON_DEMAND, "cache", "fake", "service", "__version__"])


# Need packages that nothing else does, so their modules are imported when they are asked for.
_ON_DEMAND = {"AutoModel": ".service", "Config": ".config", "register": ".service"}


def __getattr__(name: str):
    if name == "service":
        return importlib.import_module(".service", __name__)
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ON_DEMAND[name], __name__), name)


def supported_ops() -> list[dict]:
    """The registry of operators that engines support.

    Returns:
        One dict for each operator, by name: `op` ("aten::add.Tensor"), `kind` ("pointwise",
        "kernel", "expand" or "view": how it becomes kernels), `is_compute` (False for views, which
        are free), `notes`, and for pointwise operators `function`, the row of the pointwise table.
    """
    return _C.supported_ops()


_register_backend()
