"""The compiler's module without torch, for processes that compile and do not run models."""

import ctypes
import importlib
from pathlib import Path

LIB = Path(__file__).parents[2] / "lib"


def load():
    """The module `_C`. Raises ImportError where the package is not built."""
    if not LIB.is_dir():
        raise ImportError(f"torch_vulkan is not built: {LIB} does not exist; run `make` in the "
                          "source tree, or install the package")
    # The runtime first, as torch_vulkan._native has it.
    ctypes.CDLL(str(LIB / "libvk_runtime.so"))
    return importlib.import_module("torch_vulkan.lib._C")
