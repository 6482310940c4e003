"""The target of the entry points, by the path that installed packages name."""

from ._dynamo.entry import vulkan  # noqa: F401
