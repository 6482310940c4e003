"""First-call time by optimization level and by what is cached, beyond what aot_eager takes.

    python benchmarks/build_time.py [--only ResNet-50 BERT-base] [--levels 0 3 5] [--json FILE]

Columns: `cold`, nothing cached; `timings`, the tuner's timings and nothing else; `warm`, every
cache as the run before left it. Each measurement is a process of its own with cache directories of
its own.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PHASES = ("cold", "timings", "warm")
PROGRAM = """
import json, sys, time, warnings
sys.path.insert(0, {root!r})
warnings.filterwarnings("ignore")
import torch
import torch_vulkan
from workloads.networks import NETWORKS
network = NETWORKS[{name!r}]
model, inputs = network.make({reduced}), network.inputs(1, {reduced}, 0)
fast = torch.compile(model, backend={backend!r}, options={options!r} or None)
with torch.no_grad():
    start = time.perf_counter()
    fast(**inputs)
    seconds = time.perf_counter() - start
stats = {{}}
if {backend!r} == "vulkan":
    from torch_vulkan._native import C
    stats = C.tuner_stats()
print("result", json.dumps({{"seconds": seconds, **stats}}))
"""


def first_call(name, backend, cache, reduced, **options):
    """Seconds until the first result, in a fresh process that uses `cache`, and what the tuner
    counted."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    program = PROGRAM.format(root=str(Path(__file__).resolve().parents[1]), name=name,
                             backend=backend, reduced=reduced, options=options)
    done = subprocess.run([sys.executable, "-c", program], env=environment, text=True,
                          capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.split("result", 1)[1])


def measure(name, level, options):
    """The columns of a level, each said as it is known."""
    result = {}

    def column(phase, cache):
        if phase not in options.phases:
            return
        result[phase] = first_call(name, "vulkan", cache, options.reduced,
                                   optimization_level=level)
        print(f"  {name}, level {level}, {phase}: first call {result[phase]['seconds']:.1f} s",
              flush=True)

    with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as timings:
        column("cold", cold)
        kept = Path(cold, "torch_vulkan/timings.json")
        if kept.exists():
            Path(timings, "torch_vulkan").mkdir()
            shutil.copy(kept, Path(timings, "torch_vulkan"))
        column("timings", timings)
        column("warm", cold)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["ResNet-50", "BERT-base"])
    parser.add_argument("--levels", nargs="*", type=int, default=list(range(6)))
    parser.add_argument("--phases", nargs="*", default=PHASES, choices=PHASES)
    parser.add_argument("--reduced", action="store_true", help="the small sizes")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    print("seconds beyond aot_eager's first call; candidates timed in the cold run, and left out\n"
          f"{'network':18}{'aot_eager':>11}{'level':>7}{'cold':>9}{'timings':>9}{'warm':>9}"
          f"{'timed':>8}{'cut':>6}")
    rows = []
    for name in options.only:
        with tempfile.TemporaryDirectory() as cache:
            base = min(first_call(name, "aot_eager", cache, options.reduced)["seconds"]
                       for _ in range(2))
        for level in options.levels:
            result = measure(name, level, options)
            rows.append({"network": name, "level": level, "aot_eager": base, **result})
            cells = [f"{result[c]['seconds'] - base:9.1f}" if c in result else f"{'':9}"
                     for c in PHASES]
            counts = result.get("cold", {"timed": "", "cut": ""})
            print(f"{name:18}{base:11.1f}{level:7}{''.join(cells)}{counts['timed']:8}"
                  f"{counts['cut']:6}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
