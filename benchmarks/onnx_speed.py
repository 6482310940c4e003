"""Networks that torch.onnx exports, built by vkexec, beside the same networks compiled from torch.

Both engines are timed by vkexec, in turn, so that the device's clock is the only judge. With --jobs
several networks are built at a time; they are timed one after the other all the same.

    python benchmarks/onnx_speed.py [--reduced] [--batch N] [--networks NAME …] [--markdown FILE]
                                    [--jobs N]
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
from pathlib import Path

import torch_vulkan as tv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from workloads.networks import NETWORKS, Positional, export  # noqa: E402

VKEXEC = Path(tv.__file__).parent / "bin" / "vkexec"
NAMES = ["ResNet-50", "MobileNetV2", "ViT-B/16", "BERT-base", "GPT-2", "YOLOv5s"]


def vkexec(*arguments) -> None:
    done = subprocess.run([VKEXEC, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def median_ms(engine: Path, folder: Path, arguments: list[str]) -> float:
    """Median of the device's time of a call."""
    times = folder / "times.json"
    vkexec(f"--loadEngine={engine}", f"--exportTimes={times}", *arguments)
    values = sorted(call["computeMs"] for call in json.loads(times.read_text()))
    return values[len(values) // 2]


def engines(name: str, options, folder: Path) -> tuple[Path, Path]:
    """Files of the engine that torch's graph gives and of the one from ONNX."""
    model, inputs = NETWORKS[name].make(options.reduced), NETWORKS[name].inputs(
        options.batch, options.reduced, 0)
    ((key, value),) = inputs.items()
    positional = Positional(model, key).eval()
    program = tv.compile(positional, [value], min_block_size=1)
    (engine,) = tv.engines(program)
    engine.save(folder / "torch.vke")
    export(positional, value, folder / "net.onnx")
    vkexec(f"--onnx={folder}/net.onnx", f"--saveEngine={folder}/onnx.vke", "--skipInference")
    return folder / "torch.vke", folder / "onnx.vke"


def layers(path: Path) -> int:
    return len(tv.Engine.load(path).info()["layers"])


def row(name: str, files: tuple[Path, Path], options) -> list[str]:
    arguments = [f"--duration={options.seconds}", "--iterations=20"]
    rounds = [[median_ms(file, file.parent, arguments) for file in files]
              for _ in range(options.rounds)]
    ours, onnx = (min(times) for times in zip(*rounds, strict=True))
    counts = [str(layers(file)) for file in files]
    return [name, f"{ours:.3f}", f"{onnx:.3f}", f"{onnx / ours:.3f}", *counts]


def folders(names: list[str], work: str) -> list[Path]:
    made = [Path(work) / str(i) for i in range(len(names))]
    for folder in made:
        folder.mkdir()
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reduced", action="store_true", help="the small configurations")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--networks", nargs="*", default=NAMES, choices=sorted(NETWORKS))
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--jobs", type=int, default=1, help="networks to build at one time")
    options = parser.parse_args()
    lines = ["| network | torch, ms | ONNX, ms | ratio | layers of torch's | of ONNX's |",
             "|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    # Each in a process of its own: what a build leaves on the device is gone when times are taken.
    with tempfile.TemporaryDirectory() as work:
        tasks = [(name, options, folder)
                 for name, folder in zip(options.networks, folders(options.networks, work),
                                         strict=True)]
        with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool:
            built = pool.starmap(engines, tasks, chunksize=1)
        for name, files in zip(options.networks, built, strict=True):
            lines.append("| " + " | ".join(row(name, files, options)) + " |")
            print(lines[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
