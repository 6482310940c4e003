"""ONNX Runtime's provider under load: threads, and cycles of registering."""

import json

import onnx
import provider_tests
import pytest
from test_provider import in_process

from onnx_models import linear

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not provider_tests.is_built(), reason="the provider is not built "
                       "(cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")]


def save(folder):
    made, _ = linear()
    onnx.save(made, folder / "net.onnx")
    return folder / "net.onnx"


def test_threads(tmp_path):
    """8 threads with 1,000 runs each, of sizes that change from call to call."""
    printed = in_process("""
import threading
register()
opened = session(sys.argv[1])
rng = numpy.random.default_rng(0)
inputs = [rng.standard_normal((n, 8)).astype(numpy.float32) for n in (1, 3, 5, 3, 7)]
cpu = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
wanted = [cpu.run(None, {"x": x})[0] for x in inputs]
wrong, runs = [], []
def work(seed):
    for i in range(1000):
        k = (seed + i // 7) % len(inputs)
        (got,) = opened.run(None, {"x": inputs[k]})
        runs.append(k)
        if got.shape != wanted[k].shape or not numpy.allclose(got, wanted[k], rtol=1e-5, atol=1e-5):
            wrong.append((seed, i))
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(runs), wrong)
""", save(tmp_path))
    assert printed == "8000 []\n"


def test_cycles(tmp_path):
    """Neither memory nor descriptors nor threads grow when the library is registered and
    unregistered 100 times, with a session in between."""
    printed = in_process("""
import ctypes, gc, json, os
x = numpy.ones((2, 8), numpy.float32)
def held():
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(open("/proc/self/statm").read().split()[1])
    return [pages * 4, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))]
seen = []
for cycle in range(100):
    register()
    opened = session(sys.argv[1])
    opened.run(None, {"x": x})
    del opened
    gc.collect()
    onnxruntime.unregister_execution_provider_library(NAME)
    seen.append(held())
print(json.dumps(seen))
""", save(tmp_path))
    seen = json.loads(printed)
    memory, descriptors, threads = (list(column) for column in zip(*seen, strict=True))
    assert max(descriptors[10:]) == max(descriptors[:10]), descriptors
    assert max(threads[10:]) <= max(threads[:10]), threads
    # KiB, beyond what the first cycles leave with the driver and the allocator
    assert max(memory[-10:]) - max(memory[10:20]) < 4 << 10, memory
