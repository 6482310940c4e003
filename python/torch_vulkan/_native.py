"""Loads the shared libraries, once. Needs no Vulkan: that is opened when a device is asked for."""

import ctypes
import importlib
from pathlib import Path

import torch

LIB = Path(__file__).parent / "lib"


def _load():
    if not LIB.is_dir():
        raise ImportError(
            f"torch_vulkan is not built: {LIB} does not exist; run `make` in the source tree, "
            "or install the package")
    # The runtime first: its protobuf must not bind to the one that torch exports.
    ctypes.CDLL(str(LIB / "libvk_runtime.so"))
    module = importlib.import_module("torch_vulkan.lib._C")
    torch.ops.load_library(str(LIB / "libtorch_vulkan.so"))
    return module


C = _load()
