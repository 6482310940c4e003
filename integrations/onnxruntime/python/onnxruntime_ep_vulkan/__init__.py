"""ONNX Runtime's execution provider for Vulkan: where its library is, and what it is called.

    import onnxruntime
    import onnxruntime_ep_vulkan as vulkan

    onnxruntime.register_execution_provider_library(vulkan.get_ep_name(), vulkan.get_library_path())
"""

from pathlib import Path

__all__ = ["get_ep_name", "get_ep_names", "get_library_path"]


def get_library_path() -> str:
    """The path for `onnxruntime.register_execution_provider_library`.

    Raises:
        FileNotFoundError: the library was not built.
    """
    library = Path(__file__).parent / "libonnxruntime_providers_vulkan.so"
    if not library.exists():
        raise FileNotFoundError(f"{library} is missing; `make onnxruntime-provider` builds it")
    return str(library)


def get_ep_name() -> str:
    """The provider's name, for `providers=`."""
    return "VulkanExecutionProvider"


def get_ep_names() -> list[str]:
    """The names of all providers of the library."""
    return [get_ep_name()]
