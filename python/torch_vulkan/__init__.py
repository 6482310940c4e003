"""torch_vulkan: a compiler backend for PyTorch whose engines are Vulkan compute programs.

    fast = torch.compile(model, backend="vulkan")
"""

import importlib as _importlib
from pathlib import Path as _Path

from ._native import C as _C  # first: it refuses a torch that the libraries were not built against

# isort: split
from . import cache, compilations, onnx
from ._accuracy.calibration import Calibration, calibrate
from ._accuracy.comparison import Comparison, compare
from ._accuracy.validation import Validation, validate
from ._aot.graph_export import export_graph
from ._aot.graph_import import build_graph
from ._base.errors import DeviceError, UnsupportedError
from ._base.inputs import Input, Profile
from ._base.settings import Settings
from ._device.cuda_memory import mem_pool
from ._device.device_list import (
    Device,
    cuda_report,
    devices,
    memory_stats,
    release_memory,
    reset_peak_memory_stats,
)
from ._dynamo.registration import register as _register_backend
from ._engines import fake as _fake  # noqa: F401  (registers what operators make of fake tensors)
from ._engines.background import wait_for_tuning
from ._engines.custom import custom_op, load_library
from ._engines.engine import Engine
from ._generate.decoder_saving import save_decoder
from ._generate.generation import generate
from ._program.builder import Builder
from ._program.dry_run import dry_run
from ._program.profiling import profile
from ._program.program import Program, compile, engines
from ._program.refit import refit
from ._program.saving import load, save
from ._quantised.quantisation import quantize

__version__: str = _C.version
# For CMAKE_PREFIX_PATH: find_package(torch_vulkan) finds the libraries and headers of this package.
cmake_prefix_path = str(_Path(__file__).parent)
__all__ = [
    "Builder", "Calibration", "Comparison", "Device", "DeviceError", "Engine", "Input", "Profile",
    "Program", "Settings", "UnsupportedError", "Validation", "build_graph", "cache", "calibrate",
    "cmake_prefix_path", "compare", "compilations", "compile", "cuda_report", "custom_op",
    "devices", "dry_run", "engines", "export_graph", "generate", "load", "load_library",
    "mem_pool", "memory_stats", "onnx", "profile", "quantize", "refit", "release_memory",
    "reset_peak_memory_stats", "save", "save_decoder", "supported_ops",
    "validate", "wait_for_tuning",
]


# Not imported with the package: some need packages that nothing else does.
_ON_DEMAND = {"AutoModel": ".service", "Config": "._program.config", "register": ".service",
              "service": ".service"}


def __dir__() -> list[str]:
    return sorted([*__all__, *_ON_DEMAND, "__version__"])


def __getattr__(name: str):
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(_ON_DEMAND[name], __name__)
    return module if name == "service" else getattr(module, name)


def supported_ops() -> list[dict]:
    """The registry of operators that engines support.

    Returns:
        One dict for each operator, by name: `op` ("aten::add.Tensor"), `kind` ("pointwise",
        "kernel", "expand" or "view": how it becomes kernels), `is_compute` (False for views, which
        are free), `notes`, and for pointwise operators `function`, the row of the pointwise table.
    """
    return _C.supported_ops()


_register_backend()
# Known by their public names, in messages and in pickles, wherever they are defined.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
