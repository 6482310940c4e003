"""A process that may have little more address space than it holds (RLIMIT_AS): drivers are not
asked for what would end the process, PyTorch computes, and later everything works."""

import pytest

from aot_helpers import python
from marks import slow_but
from workloads.patience import patience

COMMON = f"""
import faulthandler
faulthandler.dump_traceback_later({patience(200)}, exit=True)  # a hang ends as a failure
""" + """
import glob, resource, sys, warnings
import torch, torch_vulkan as tv
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 5)).eval()
model.requires_grad_(False)
x = torch.randn(1, 3, 12, 12)
want = model(x)
def more(mib):  # None: all there is
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = resource.RLIM_INFINITY if mib is None else pages * resource.getpagesize() + mib * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
def threads_of_driver():
    names = [open(path).read() for path in glob.glob("/proc/self/task/*/comm")]
    return sum(name.startswith("llvmpipe") for name in names)
def relu():
    network = tv.Builder()
    network.output("y", network.op("aten::relu", network.input("x", (4, 8))))
    engine = network.build(optimization_level=0, cache_built_engines=False,
                           reuse_cached_engines=False)
    given = torch.randn(4, 8)
    assert torch.equal(engine.run([given])["y"], given.relu())
"""

COMPILE = COMMON + """
torch.compile(model, backend="aot_eager")(x)  # what PyTorch itself loads for it
torch._dynamo.reset()
tv.devices()
if sys.argv[2] == "open":
    tv._native.C.device_profile("")
options = {"min_block_size": 1, "reuse_cached_engines": False, "cache_built_engines": False,
           "optimization_level": 0}
def compiled():
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = torch.compile(model, backend="vulkan", options=options)(x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    return [str(w.message) for w in said if "natively" in str(w.message)]
more(int(sys.argv[1]))
said = compiled()
more(None)
assert said and "memory" in said[0], said
assert not compiled()
print("done")
"""


@pytest.mark.parametrize("device, mib", slow_but(
    [("closed", 150), ("open", 56)],
    [("closed", 56), ("closed", 150), ("closed", 220), ("open", 48), ("open", 56)], rows=True))
def test_compile_runs_natively(device, mib):
    """Where the device cannot be opened, or the kernel compiler not be started. (Dynamo itself
    takes 32 MiB to time its guards.)"""
    assert "done" in python(COMPILE, mib, device)


OPENING = COMMON + """
for mib in (0, 30, 100, 250):
    more(mib)
    try:
        tv.devices()
        raise SystemExit(f"no error with {mib} MiB")
    except torch.OutOfMemoryError as error:
        assert "loading" in str(error), error
    finally:
        more(None)
assert tv.devices()
for mib in (0, 30, 100, 200, 250):
    more(mib)
    try:
        tv._native.C.device_profile("")
        raise SystemExit(f"no error with {mib} MiB")
    except torch.OutOfMemoryError as error:
        assert "opening" in str(error), error
    finally:
        more(None)
relu()
print("threads", threads_of_driver())
"""


def test_no_driver_is_called_that_has_too_little():
    """Lavapipe ends the process where it cannot open a device, or has too few threads for good."""
    usual = python(COMMON + "relu()\nprint('threads', threads_of_driver())")
    assert python(OPENING) == usual
