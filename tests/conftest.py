"""Fixtures of every Python test."""

import pytest
import torch

import torch_vulkan as tv
from torch_vulkan import compilations


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    compilations.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="session")
def device():
    """The best device; the suite needs one (lavapipe will do)."""
    return tv.devices()[0]
