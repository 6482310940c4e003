"""A test of this folder fails where an engine leaves a call to PyTorch (`check_indices`, limits of
the device): what it compares would be PyTorch's own results."""

import pytest


def pytest_itemcollected(item):
    item.add_marker(pytest.mark.filterwarnings("error:torch_vulkan.*natively"))
