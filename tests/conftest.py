"""Fixtures of every Python test."""

import os

# What tactics are taken is not the subject of most tests, and timing them takes long; those that
# mean the tuner name a level.
os.environ.setdefault("TORCH_VULKAN_OPTIMIZATION_LEVEL", "0")

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
