"""The compile service: compile once, use everywhere (docs/service.md).

    client = tv.service.Client("http://127.0.0.1:8600", api_key=…)
    job = client.submit("net.onnx", devices=["lavapipe"])

Importing torch_vulkan does not import it. Its packages come with `pip install
torch-vulkan[service]`.
"""

import importlib

_PUBLIC = {"Client": "client.client", "ServiceError": "errors", "AutoModel": "client.auto_model",
           "register": "client.registering", "register_callback": "client.registering"}
__all__ = [*_PUBLIC]


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'torch_vulkan.service' has no attribute {name!r}")
    return getattr(importlib.import_module(f".._service.{_PUBLIC[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
