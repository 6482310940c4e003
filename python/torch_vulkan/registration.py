"""Makes `backend="vulkan"` known where the package is used from a source tree.

An installed package is found through its entry point; then nothing is done here, because importing
torch._dynamo costs a second.
"""

from importlib.metadata import entry_points


def register() -> None:
    if any(point.name == "vulkan" for point in entry_points(group="torch_dynamo_backends")):
        return
    import torch._dynamo

    from .backend import vulkan

    torch._dynamo.register_backend(compiler_fn=vulkan, name="vulkan")
