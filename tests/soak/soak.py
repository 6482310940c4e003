"""Does one thing very often and prints what the process holds: memory, descriptors, threads.

    python tests/soak/soak.py                # 10^6 calls, 2,000 compilations, 10^4 loads and shapes
    python tests/soak/soak.py --share 0.01   # a hundredth of each
    python tests/soak/soak.py calls --seconds 60

Each part runs in a process of its own, an hour at most together with aot_eager's compilations; one
that time cuts short is named. Exits with 1 where something grew after the first third. What
torch.compile itself keeps of each compilation is measured with the backend "aot_eager" beside it
and is not counted.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

POINTS = 24  # of the curve
MIB = 2**20


@dataclass(frozen=True)
class Point:
    """What the process holds after `done` repetitions. `resident`: bytes in memory."""

    done: int
    seconds: float
    resident: int
    descriptors: int
    threads: int


@dataclass(frozen=True)
class Part:
    """`make()` gives the function that is repeated `times` times; `slack`: bytes that may come to
    be held meanwhile (the allocator's own unevenness), and `each` per repetition."""

    make: object
    times: int
    slack: int = 12 * MIB
    each: float = 0.0


def held(done: int, start: float) -> Point:
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Point(done, time.monotonic() - start, resident, len(os.listdir("/proc/self/fd")),
                 len(os.listdir("/proc/self/task")))


def _net():
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()


def calls():
    """Calls of one compiled function."""
    import torch

    fast = torch.compile(_net(), backend="vulkan", options={"min_block_size": 1})
    x = torch.ones(2, 16)

    def once(i):
        with torch.no_grad():
            fast(x)
    return once


def compilations(backend="vulkan"):
    """torch.compile of a new module, a call, and all of it is dropped."""
    import torch

    options = {"options": {"min_block_size": 1}} if backend == "vulkan" else {}

    def once(i):
        with torch.no_grad():
            torch.compile(_net(), backend=backend, **options)(torch.ones(2, 16))
        torch._dynamo.reset()
    return once


def loads():
    """An engine is read from a file, called and dropped."""
    import torch

    import torch_vulkan as tv

    x = torch.ones(2, 16)
    path = Path(tempfile.mkdtemp()) / "net.vke"
    program = tv.compile(_net(), inputs=[tv.Input((2, 16))], min_block_size=1)
    tv.engines(program)[0].save(path)

    def once(i):
        tv.Engine.load(path).run([x])
    return once


def shapes():
    """Calls of one engine with a size that it has not seen before."""
    import torch

    options = {"min_block_size": 1}
    fast = torch.compile(_net(), backend="vulkan", dynamic=True, options=options)
    torch.ones(1 << 20).add_(1)  # PyTorch starts its own threads at the first large tensor

    def once(i):
        with torch.no_grad():
            fast(torch.ones(2 + i, 16))
    return once


PARTS = {
    "calls": Part(calls, 1_000_000),
    "compilations": Part(compilations, 2_000),
    "loads": Part(loads, 10_000),
    # The largest size so far is what memory must hold.
    "shapes": Part(shapes, 10_000, each=16 * 4 * 8),
}


def curve(part: Part, times: int, seconds: float) -> list[Point]:
    """Repeats it and looks at the process now and then; ends early after `seconds`."""
    once, start, points = part.make(), time.monotonic(), []
    for i in range(times):
        once(i)
        if i + 1 >= times * (len(points) + 1) // POINTS:
            points.append(held(i + 1, start))
        if time.monotonic() - start > seconds:
            break
    return points


def repetitions(part: Part, share: float) -> int:
    return max(POINTS, int(part.times * share))


def growth(points: list[Point]) -> dict[str, int]:
    """What is held at the end beyond what was held after the first third."""
    early, late = points[len(points) // 3:len(points) // 2], points[-len(points) // 4:]
    return {"resident": min(p.resident for p in late) - max(p.resident for p in early),
            "descriptors": late[-1].descriptors - early[0].descriptors,
            "threads": late[-1].threads - early[0].threads}


def show(name: str, points: list[Point]) -> None:
    print(f"{name}: {'done':>9} {'seconds':>8} {'MiB':>8} {'descriptors':>11} {'threads':>7}")
    for p in points:
        print(f"{name}: {p.done:9} {p.seconds:8.1f} {p.resident / MIB:8.1f} {p.descriptors:11} "
              f"{p.threads:7}")


def measured(name: str, share: float, seconds: float) -> list[Point]:
    """The curve of a part, in a process of its own."""
    run = subprocess.run([sys.executable, __file__, name, "--share", str(share), "--seconds",
                          str(seconds), "--here"], stdout=subprocess.PIPE, check=True, text=True)
    return [Point(**point) for point in json.loads(run.stdout.splitlines()[-1])]


def problems(name: str, share: float, seconds: float) -> list[str]:
    """Runs a part, prints its curve and says what grew."""
    points = measured(name, share, seconds)
    show(name, points)
    if points[-1].done < (wanted := repetitions(PARTS[name], share)):
        print(f"{name}: {points[-1].done} of {wanted} in {seconds:.0f} s")
    part, grown = PARTS[name], growth(points)
    allowed = part.slack + part.each * points[-1].done
    if name == "compilations":
        own = measured("torch_alone", share, seconds)
        show("aot_eager", own)
        a_time = max(0, growth(own)["resident"]) / max(1, own[-1].done)
        allowed += a_time * points[-1].done
    found = [f"{name}: {grown[what]} more {what}" for what in ("descriptors", "threads")
             if grown[what] > 0]
    if grown["resident"] > allowed:
        found.append(f"{name}: {grown['resident'] / MIB:.1f} MiB more; "
                     f"{allowed / MIB:.1f} are allowed")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=[*PARTS])
    parser.add_argument("--share", type=float, default=1.0, help="of the repetitions")
    parser.add_argument("--seconds", type=float, default=700.0, help="at most, of each part")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        torch_alone = Part(lambda: compilations("aot_eager"), PARTS["compilations"].times)
        part = {**PARTS, "torch_alone": torch_alone}[given.parts[0]]
        points = curve(part, repetitions(part, given.share), given.seconds)
        print(json.dumps([asdict(p) for p in points]))
        return
    found = [text for name in given.parts for text in problems(name, given.share, given.seconds)]
    print("\n".join(found) or "flat")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
