"""The compile service: what is behind torch_vulkan.service."""
