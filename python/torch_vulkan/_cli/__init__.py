"""Commands of python -m torch_vulkan."""
