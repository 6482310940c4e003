"""The command `vkexec`: runs the native program inside the package.

A module of its own, because importing the package would import torch, which the program needs not.
"""

import importlib.util
import os
import sys
from pathlib import Path


def main():
    """Becomes the native program; does not return."""
    package = importlib.util.find_spec("torch_vulkan").submodule_search_locations[0]
    program = Path(package) / "bin" / "vkexec"
    if not program.exists():
        sys.exit(f"vkexec: {program} is missing; build it with `ninja -C build vkexec`")
    os.execv(program, ["vkexec", *sys.argv[1:]])
