"""Where what the setting `debug` asks for is written."""

import tempfile


def debug_directory(settings) -> str:
    """Where the setting `debug` wants dumps, made and printed; "" if it does not."""
    if not settings.debug:
        return ""
    if isinstance(settings.debug, str):
        directory = settings.debug
    else:
        directory = tempfile.mkdtemp(prefix="torch_vulkan_debug_")
    print(f"torch_vulkan: graphs and kernels are dumped under {directory}")
    return directory
