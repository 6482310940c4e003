"""Registers `backend="vulkan"`, and "torch_vulkan", if the package is used from a source tree.

An installed package is found through its entry points; then this does nothing, because importing
torch._dynamo takes a second.
"""

from importlib.metadata import entry_points

NAMES = ("vulkan", "torch_vulkan")


def register() -> None:
    """Called when the package is imported."""
    known = {point.name for point in entry_points(group="torch_dynamo_backends")}
    missing = [name for name in NAMES if name not in known]
    if not missing:
        return
    from torch._dynamo.backends import registry

    from .entry import vulkan

    for name in missing:
        if name not in registry._COMPILER_FNS:
            registry.register_backend(compiler_fn=vulkan, name=name)
