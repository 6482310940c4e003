"""Fixtures of every Python test."""

import gc
import json
import os
import random
import time

# What tactics are taken is not the subject of most tests, and timing them takes long; those that
# mean the tuner name a level.
os.environ.setdefault("TORCH_VULKAN_OPTIMIZATION_LEVEL", "0")

import pytest
import torch

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._dynamo import backend
from torch_vulkan._native import C

from alone import pytest_runtest_protocol  # noqa: F401 - a hook
from marks import take_turns
from record import pytest_runtest_logreport  # noqa: F401 - a hook
from seeds import SEED, TURN

if os.environ.get("TV_TEST_FLUSH_DENORMALS"):
    # A CPU driver's threads inherit this, so that kernels take denormals for 0 as some GPUs do;
    # torch's own arithmetic keeps them.
    torch.set_flush_denormal(True)
    torch.compile(lambda x: x * 2, backend="vulkan", options={"min_block_size": 1})(torch.ones(5))
    torch.set_flush_denormal(False)


gc.collect()
gc.freeze()  # what torch's modules hold is not walked through again: 4 % of a test's time


# The processes of pytest-xdist end at the same time, with the tests in the same order.
SLICE_END = float(os.environ.setdefault("TV_TEST_SLICE_END", str(
    time.time() + float(os.environ.get("TV_TEST_SLICE_SECONDS", "inf")))))


@pytest.hookimpl(tryfirst=True)  # before -m takes the slow ones out
def pytest_collection_modifyitems(items):
    take_turns(items)
    if SLICE_END < float("inf"):
        random.Random(SEED).shuffle(items)


def pytest_runtest_setup(item):
    if time.time() > SLICE_END:
        pytest.skip("the time of this slice is over; slices of other commits have this test")


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"TV_TEST_SEED={SEED} draws the same random tests again, "
                                f"TV_TEST_TURN={TURN} takes the same turns")


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


def as_gpu(profile):
    """The profile of a GPU that can do what a CPU device can: kernels for GPUs run on both. It is
    no device of this machine, so nothing is timed and the rule's first tactic is taken."""
    return C.DeviceProfile.from_json(json.dumps(json.loads(profile.to_json()) | {
        "type": "discrete", "uuid": "0" * 32}))


@pytest.fixture
def gpu_tactics(device, monkeypatch):
    """Runs a test with the tactics of a GPU."""
    if device.type != "cpu":
        return
    real = backend.device_profile
    for module in (backend, tv.onnx):
        monkeypatch.setattr(module, "device_profile", lambda *a, **k: as_gpu(real(*a, **k)))


@pytest.fixture(params=["device", "gpu"])
def tactics_of(request, device):
    """Runs a test with the tactics of the device, and again with a GPU's where it is a CPU."""
    if request.param == "gpu":
        if device.type != "cpu":
            pytest.skip("the device is no CPU: its tactics are a GPU's")
        request.getfixturevalue("gpu_tactics")
