"""How long a session of ONNX Runtime with the Vulkan provider takes to be made, in ms: the first,
which builds the engine, and later ones, which take it from the cache on disk, in processes of their
own; beside the sessions of ONNX Runtime's CPU provider.

    python benchmarks/onnxruntime_session.py [--network NAME] [--reduced] [--runs N] [--json]

"warm" is a second session in a process that had one: no Vulkan is opened, no library loaded, no
kernel compiled. "processor" is the time of all threads, which other programs on the machine change
little.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Without torch, as an application that deploys a file would be.
SESSIONS = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import onnxruntime
import onnxruntime_ep_vulkan as vulkan
NAME = vulkan.get_ep_name()
onnxruntime.register_execution_provider_library(NAME, vulkan.get_library_path())
options = dict(engine_cache_path=sys.argv[3], builder_optimization_level=0)
providers = {"cpu": ["CPUExecutionProvider"],
             "vulkan": [(NAME, options), "CPUExecutionProvider"]}[sys.argv[4]]
times = []
for _ in range(int(sys.argv[5])):
    start = time.perf_counter(), time.process_time()
    session = onnxruntime.InferenceSession(sys.argv[2], providers=providers, enable_fallback=0)
    times.append([1e3 * (time.perf_counter() - start[0]), 1e3 * (time.process_time() - start[1])])
    del session
print(json.dumps(times))
"""


def write(name: str, reduced: bool, path: Path) -> None:
    """Writes a network of workloads/networks.py."""
    sys.path.insert(0, str(ROOT))
    from workloads.networks import NETWORKS, Positional, export

    network = NETWORKS[name]
    ((key, value),) = network.inputs(1, reduced, 0).items()
    export(Positional(network.make(reduced), key).eval(), value, path)


def sessions(path: Path, cache: Path, provider: str, count: int) -> list[list[float]]:
    """Times of `count` sessions in one process: by the clock, and of the processor."""
    package = ROOT / "integrations" / "onnxruntime" / "python"
    done = subprocess.run([sys.executable, "-c", SESSIONS, *map(str, (package, path, cache,
                                                                      provider, count))],
                          text=True, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def row(times: list[list[float]]) -> dict[str, float]:
    clock, processor = zip(*times, strict=True)
    return {"min": min(clock), "median": statistics.median(clock),
            "processor min": min(processor), "processor median": statistics.median(processor)}


def measure(path: Path, cache: Path, runs: int) -> dict[str, dict[str, float]]:
    """Of `runs` processes with four sessions each, and of the first session."""
    rows = {"first": row(sessions(path, cache, "vulkan", 1))}
    for provider in ("vulkan", "cpu"):
        found = [sessions(path, cache, provider, 4) for _ in range(runs)]
        label = "" if provider == "vulkan" else "CPU provider's "
        rows[label + "second"] = row([own[0] for own in found])
        rows[label + "warm"] = row([times for own in found for times in own[1:]])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="ResNet-50")
    parser.add_argument("--model", type=Path, help="an ONNX file instead")
    parser.add_argument("--reduced", action="store_true", help="the small configuration")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        path = options.model or Path(work) / "net.onnx"
        if not options.model:
            write(options.network, options.reduced, path)
        rows = measure(path, Path(work) / "cache", options.runs)
    if options.json:
        print(json.dumps(rows))
    else:
        for label, values in rows.items():
            print(f"{label:>22}", *(f"  {of} {value:.1f} ms" for of, value in values.items()))


if __name__ == "__main__":
    main()
