"""What of CUDA works together with Vulkan here, and what it costs: every way, every return code.

    python benchmarks/cuda_probe.py            all ways, each in a process of its own
    python benchmarks/cuda_probe.py --way auto
"""

import argparse
import ctypes
import os
import subprocess
import sys
import time
import traceback
import warnings

from timing import per_call_us


def section(name, function):
    """Runs one part; a failure is printed and the next part goes on."""
    print(f"== {name}", flush=True)
    try:
        function()
    except Exception:
        traceback.print_exc()
    sys.stdout.flush()


def driver_facts():
    """How torch's memory looks to the driver, before and after it is mapped again."""
    import torch

    from torch_vulkan._device.cuda_memory import set_allocator

    cuda = ctypes.CDLL("libcuda.so.1")
    torch.cuda.init()
    torch.zeros(1, device="cuda")

    def look(tensor, name):
        pointer = ctypes.c_uint64(tensor.data_ptr())
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        code = cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), pointer)
        handle = ctypes.c_uint64()
        retained = cuda.cuMemRetainAllocationHandle(ctypes.byref(handle), pointer)
        fd = ctypes.c_int(-1)
        exported = cuda.cuMemExportToShareableHandle(
            ctypes.byref(fd), handle, 1, ctypes.c_uint64(0)) if retained == 0 else None
        if fd.value >= 0:
            os.close(fd.value)
        number = ctypes.c_uint64()
        buffer_id = cuda.cuPointerGetAttribute(ctypes.byref(number), 7, pointer)
        print(f"{name}: pointer {pointer.value:#x}, range {code} base {base.value:#x} size "
              f"{size.value}, retain {retained} handle {handle.value:#x}, export {exported} fd "
              f"{fd.value}, buffer id {buffer_id} {number.value}")
        start = time.perf_counter()
        for _ in range(1000):
            if cuda.cuMemRetainAllocationHandle(ctypes.byref(handle), pointer) == 0:
                cuda.cuMemRelease(handle)
        retain_us = (time.perf_counter() - start) * 1e3
        start = time.perf_counter()
        for _ in range(1000):
            cuda.cuPointerGetAttribute(ctypes.byref(number), 7, pointer)
        print(f"    retain + release {retain_us:.2f} µs, buffer id "
              f"{(time.perf_counter() - start) * 1e3:.2f} µs (ctypes included)")
        if retained == 0:
            cuda.cuMemRelease(handle)

    look(torch.zeros(1000, device="cuda"), "default allocator")
    set_allocator("expandable_segments:True")
    torch.cuda.empty_cache()
    for _ in range(2):
        x = torch.zeros(3 << 20, device="cuda")
        look(x, "expandable, 12 MiB")
        look(x[2 << 20:], "the same, 8 MiB on")
        del x
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    look(torch.zeros(30 << 20, device="cuda"), "expandable, 120 MiB")
    look(torch.zeros(100, device="cuda"), "expandable, small")


def way(name):
    """Results and costs of one way."""
    import torch

    import torch_vulkan as tv
    from torch_vulkan._device import cuda_memory, device_list
    from torch_vulkan._native import C

    warnings.simplefilter("always")
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    device = device_list.spec_for(None, torch.device("cuda"))
    if name != "staged":
        cuda_memory.allocate_shareable()
    start = time.perf_counter()
    torch.zeros(1, device="cuda")
    print(f"torch.cuda started in {time.perf_counter() - start:.3f} s")
    start = time.perf_counter()
    report = tv.cuda_report(torch.device("cuda"))
    print(f"the link was made in {time.perf_counter() - start:.3f} s")
    for line in report:
        print("   ", line)
    fast = torch.compile(lambda t: torch.relu(t), backend="vulkan", options={"min_block_size": 1})
    x = torch.randn(16, device="cuda")

    def check():
        for n in (16, 1000, 1 << 20, 30 << 20):
            y = torch.randn(n, device="cuda")
            same = torch.equal(fast(y), torch.relu(y))
            print(f"{n} elements: {'equal' if same else 'WRONG'}")
        torch._dynamo.reset()
        fast(x)

    def synchronised(call):
        def run():
            call()
            torch.cuda.synchronize()
        return run

    pinned = torch.randn(16).pin_memory()
    back = torch.empty(16).pin_memory()

    def serving():
        x.copy_(pinned, non_blocking=True)
        back.copy_(fast(x), non_blocking=True)
        torch.cuda.synchronize()

    def between_kernels():
        x.add_(1)
        fast(x).add_(1)
        torch.cuda.synchronize()

    def costs():
        before = C.cuda_counts(device)
        for label, call in (("call + synchronise", synchronised(lambda: fast(x))),
                            ("eager relu + synchronise", synchronised(lambda: torch.relu(x))),
                            ("serving loop", serving), ("between kernels", between_kernels),
                            ("calls alone, no synchronise", lambda: fast(x))):
            low, median = per_call_us(call)
            print(f"{label:32} min {low:8.1f}  median {median:8.1f} µs", flush=True)
            torch.cuda.synchronize()
            after = C.cuda_counts(device)
            print(" " * 33, {k: after[k] - before[k] for k in after if k != "imports"},
                  "imports", after["imports"])
            before = after

    with torch.no_grad():
        section("results", check)
        section("costs", costs)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=["auto", "semaphores", "staged", "host"])
    options = parser.parse_args()
    if options.way:
        section(options.way, lambda: way(options.way))
        return
    section("driver", driver_facts)
    for name in ("auto", "semaphores", "staged", "host"):
        environment = os.environ | {"TORCH_VULKAN_CUDA": name}
        try:
            subprocess.run([sys.executable, __file__, "--way", name], env=environment, timeout=45,
                           check=False)
        except subprocess.TimeoutExpired:
            print(f"{name}: no answer in 45 s", flush=True)


if __name__ == "__main__":
    main()
