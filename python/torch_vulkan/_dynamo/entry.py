"""What an entry point loads when torch.compile first looks for the backend."""

from .._torch import graph_breaks
from .backend import vulkan  # noqa: F401

graph_breaks.watch()
