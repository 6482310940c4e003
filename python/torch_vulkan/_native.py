"""Loads the shared libraries, once. Needs no Vulkan, which is loaded when a device is asked for."""

import ctypes
import importlib
from pathlib import Path

import torch

LIB = Path(__file__).parent / "lib"


def _check_torch(module):
    """Another minor version of torch lays its C++ classes out differently under the same names."""
    built, here = (v.split(".")[:2] for v in (module.torch_version, torch.__version__))
    if built == here:
        return
    tree = LIB.parents[2]
    remedy = (f"build it again (`ninja -C build` in {tree})" if (tree / "CMakeLists.txt").exists()
              else f"install a torch_vulkan built against torch {'.'.join(here)}")
    raise ImportError(
        f"torch_vulkan {module.version} is built against torch {module.torch_version}, and torch "
        f"{torch.__version__} is here: {remedy}, or install torch=={'.'.join(built)}.*")


def _load():
    if not LIB.is_dir():
        raise ImportError(
            f"torch_vulkan is not built: {LIB} does not exist; run `make` in the source tree, "
            "or install the package")
    # The runtime first: its protobuf must not bind to the one that torch exports.
    ctypes.CDLL(str(LIB / "libvk_runtime.so"))
    module = importlib.import_module("torch_vulkan.lib._C")
    _check_torch(module)
    torch.ops.load_library(str(LIB / "libtorch_vulkan.so"))
    return module


C = _load()
