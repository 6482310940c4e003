"""First-call time with an empty and with a warm driver cache, beyond what aot_eager takes.

    python benchmarks/build_time.py [--only ResNet BERT]

Every measurement is a process of its own with cache directories of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import sys, time, warnings
sys.path.insert(0, {here!r})
warnings.filterwarnings("ignore")
import torch
from networks import NETWORKS
network = NETWORKS[{name!r}]
model, inputs = network.make({reduced}), network.inputs(1, {reduced}, 0)
fast = torch.compile(model, backend={backend!r})
with torch.no_grad():
    start = time.perf_counter()
    fast(**inputs)
    print("seconds", time.perf_counter() - start)
"""


def first_call_s(name, backend, cache, reduced):
    """Seconds until the first result, in a fresh process that uses `cache`."""
    environment = os.environ | {"XDG_CACHE_HOME": cache}
    program = PROGRAM.format(here=str(Path(__file__).parent), name=name, backend=backend,
                             reduced=reduced)
    done = subprocess.run([sys.executable, "-c", program], env=environment, text=True,
                          capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.split("seconds")[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["ResNet-50", "BERT-base"])
    parser.add_argument("--reduced", action="store_true", help="the small sizes")
    options = parser.parse_args()
    print(f"{'network':18}{'aot_eager':>11}{'cold':>9}{'warm':>9}   "
          "seconds beyond aot_eager: cold, warm")
    for name in options.only:
        with tempfile.TemporaryDirectory() as cache:
            base = min(first_call_s(name, "aot_eager", cache, options.reduced) for _ in range(2))
            cold = first_call_s(name, "vulkan", cache, options.reduced)
            warm = first_call_s(name, "vulkan", cache, options.reduced)
        print(f"{name:18}{base:11.1f}{cold:9.1f}{warm:9.1f}   {cold - base:.1f}, {warm - base:.1f}",
              flush=True)


if __name__ == "__main__":
    main()
