"""The commands `tv-compile` and `python -m torch_vulkan.service`, and what the service's tasks are.

A module of its own, because importing the package would import torch, which none of them needs:
they start in a tenth of the time.
"""

import importlib
import sys
import types
from pathlib import Path

PACKAGE = Path(__file__).parent / "torch_vulkan"


def _room(name: str):
    """A module of torch_vulkan._service; the package itself is not run, if it has not been."""
    if "torch_vulkan" not in sys.modules:
        package = types.ModuleType("torch_vulkan")
        package.__path__ = [str(PACKAGE)]
        sys.modules["torch_vulkan"] = package
    return importlib.import_module(f"torch_vulkan._service.{name}")


def main() -> int:
    """tv-compile."""
    return _room("commands.cli").main(sys.argv[1:])


if __name__ == "__main__":
    if sys.argv[1:2] in (["task"], ["node"]):
        sys.exit(_room(f"running.{sys.argv[1]}").main(sys.argv[2:]))
    sys.exit(main())
