"""Start-up with empty and with warm caches, and the time of a refit, beside torch's inductor with
its own cache.

    python benchmarks/cache.py [--only ResNet-50 BERT-base] [--reduced] [--skip-inductor]

Every measurement is a process of its own; "seconds" run from the import of torch_vulkan, with
torch and the model in memory, to the first result; aot_eager's are the least of three. "In
processor time" counts all threads, and hardly depends on what else the machine does. The columns:
  first     empty caches, the driver's too
  driver    the driver's cache is warm, the engine cache is off
  cached    all caches warm
  refitted  all caches warm, other weights
  refit     in a running process: all weights change, until the result of the next call
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import json, sys, time, warnings
sys.path.insert(0, {root!r})
warnings.filterwarnings("ignore")
import torch
from workloads.networks import NETWORKS
network = NETWORKS[{name!r}]
model, inputs = network.make({reduced}), network.inputs(1, {reduced}, 0)
other = {{name: w * 1.01 if w.is_floating_point() else w for name, w in model.state_dict().items()}}
if {refitted}:
    model.load_state_dict(other)
options = {options}
start, processor = time.perf_counter(), time.process_time()
if {backend!r} == "vulkan":
    import torch_vulkan as tv
fast = torch.compile(model, backend={backend!r}, **({{"options": options}} if options else {{}}))
with torch.no_grad():
    fast(**inputs)
    first, processor = time.perf_counter() - start, time.process_time() - processor
    fast(**inputs)
    start = time.perf_counter()
    fast(**inputs)
    call = time.perf_counter() - start
    start = time.perf_counter()
    model.load_state_dict(other)
    copied = time.perf_counter() - start
    fast(**inputs)
    refit = time.perf_counter() - start
result = dict(first=first, processor=processor, refit=refit - call, copied=copied)
if {backend!r} == "vulkan":
    from torch_vulkan._native import C
    result |= dict(built=C.build_counters(), cache=tv.cache.stats())
print("result", json.dumps(result))
"""
OFF = {"cache_built_engines": False, "reuse_cached_engines": False}


def process(name, backend, cache, reduced, refitted=False, options=None):
    """What a fresh process that uses the caches under `cache` measured."""
    environment = os.environ | {"XDG_CACHE_HOME": cache,
                                "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor"}
    program = PROGRAM.format(root=str(Path(__file__).resolve().parents[1]), name=name,
                             backend=backend, reduced=reduced, refitted=refitted,
                             options=options or {})
    done = subprocess.run([sys.executable, "-c", program], env=environment, text=True,
                          capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.split("result", 1)[1])


def row(label, cells):
    print(f"{label:28}" + "".join(f"{c:>10}" if isinstance(c, str) else f"{c:10.2f}"
                                  for c in cells), flush=True)


def measure(name, reduced, with_inductor):
    """Prints the rows of one network, in seconds."""
    with tempfile.TemporaryDirectory() as cache:
        eager = [process(name, "aot_eager", cache, reduced) for _ in range(2)]
        first = process(name, "vulkan", cache, reduced)
        driver = process(name, "vulkan", cache, reduced, options=OFF)
        cached = process(name, "vulkan", cache, reduced)
        other = process(name, "vulkan", cache, reduced, refitted=True)
        runs = (first, driver, cached, other)
        eager.append(process(name, "aot_eager", cache, reduced))
        eager, processor = (min(run[key] for run in eager) for key in ("first", "processor"))
        row(f"{name} aot_eager", [eager])
        row(f"{name} vulkan", [*(run["first"] for run in runs), cached["refit"]])
        row("  beyond aot_eager", [run["first"] - eager for run in runs])
        row("    in processor time", [run["processor"] - processor for run in runs])
        row("  engines built, hits", [f"{run['built']['engines']}, {run['cache']['hit']}"
                                      for run in runs])
    if not with_inductor:
        return
    with tempfile.TemporaryDirectory() as cache:
        try:
            runs = [process(name, "inductor", cache, reduced, refitted=i == 2) for i in range(3)]
        except RuntimeError as error:
            print(f"{name} inductor: {str(error).strip().splitlines()[-1]}")
            return
        row(f"{name} inductor", [runs[0]["first"], "", runs[1]["first"], runs[2]["first"],
                                 runs[1]["refit"]])
        row("  beyond aot_eager", [runs[0]["first"] - eager, "", runs[1]["first"] - eager,
                                   runs[2]["first"] - eager])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["ResNet-50", "BERT-base"])
    parser.add_argument("--reduced", action="store_true", help="the small sizes")
    parser.add_argument("--skip-inductor", action="store_true")
    options = parser.parse_args()
    row("seconds", ["first", "driver", "cached", "refitted", "refit"])
    for name in options.only:
        measure(name, options.reduced, not options.skip_inductor)


if __name__ == "__main__":
    main()
