"""Eight threads call, refit, compile and destroy at once; processes fork, spawn, end at any time.

    python tests/soak/threads.py                    # ten minutes of threads, 60 processes that end
    python tests/soak/threads.py --seconds 20 --processes 4

Exits with 1 where a result was wrong, a call failed, or a process crashed or hung.
"""

import argparse
import faulthandler
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

OPTIONS = {"min_block_size": 1, "optimization_level": 0}
DOUBLE = """void main() {
  uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i < y_numel) y_store(i, x_load(i) * 2.0);
}"""
LONGEST = 240  # seconds that a process may take
# What PyTorch does without this package where the interpreter ends while a daemon thread is in its
# operators: the thread is ended inside of C++ (bpo-42969; Python 3.14 does not do so any more).
OWN_OF_TORCH = "terminate called without an active exception"


def net(seed: int):
    import torch
    from torch import nn

    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval().requires_grad_(False)


class Stress:
    """What the threads share: an engine that is refitted, one with dynamic sizes, and a file."""

    def __init__(self, seconds: float, seed: int):
        import torch

        import torch_vulkan as tv

        self.torch, self.tv = torch, tv
        self.end, self.seed = time.monotonic() + seconds, seed
        self.done: dict[str, int] = {}
        self.declared = 0
        self.failures: list[str] = []
        self.lock, self.capturing = threading.Lock(), threading.Lock()
        self.module = net(0)
        rows = tv.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(64, 8))
        self.program = tv.compile(self.module, inputs=[rows], **OPTIONS)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            self.script = tv.compile(torch.jit.script(self.module), inputs=[rows], **OPTIONS)
        # At each new size it asks once whether the engine fits, by kernels of PyTorch in Python
        # that do not stand torch.export in another thread (torch.fx.traceback is the process's).
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda rows: self.script(torch.zeros(rows, 8)), [*range(1, 65)] * 4))
        self.path = Path(tempfile.mkdtemp()) / "net.vke"
        tv.engines(self.program)[0].save(self.path)
        self.refitted, self.others = tv.Engine.load(self.path), [net(i) for i in range(3)]

    def equal(self, what, got, want):
        if not self.torch.allclose(got, want, rtol=1e-4, atol=1e-5):
            raise AssertionError(f"{what}: off by {(got - want).abs().max()}")

    def input(self, chance):
        generator = self.torch.Generator().manual_seed(chance.randrange(2**31))
        return self.torch.randn(chance.randint(1, 64), 8, generator=generator)

    def call(self, chance):
        """One program from all threads, other sizes each time."""
        x = self.input(chance)
        self.equal("call", self.program(x), self.module(x))

    def call_script(self, chance):
        """The same as a TorchScript program."""
        x = self.input(chance)
        self.equal("script", self.script(x), self.module(x))

    def load(self, chance):
        """An engine of the thread's own: loaded, called, dropped."""
        x = self.input(chance)
        result = self.tv.Engine.load(self.path).run([x])
        self.equal("load", next(iter(result.values())), self.module(x))

    def refit(self, chance):
        """One engine gets other weights while the others call it: each sees one set, whole."""
        by_shape = {p.shape: p for p in chance.choice(self.others).parameters()}  # each its own
        self.refitted.refit({w["name"]: by_shape[self.torch.Size(w["shape"])]
                             for w in self.refitted.info()["weights"]})

    def call_refitted(self, chance):
        x = self.input(chance)
        got = next(iter(self.refitted.run([x]).values()))
        wanted = [other(x) for other in self.others]
        if not any(self.torch.allclose(got, w, rtol=1e-4, atol=1e-5) for w in wanted):
            raise AssertionError("a call saw weights of two sets")

    def compile(self, chance):
        """A module of the thread's own."""
        module, x = net(chance.randrange(1000)), self.input(chance)
        fast = self.torch.compile(module, backend="vulkan", options=OPTIONS)
        self.equal("compile", fast(x), module(x))

    def build(self, chance):
        """A network of the thread's own, seldom the same as another's."""
        x, weight = self.input(chance), self.torch.randn(8, chance.randint(1, 200))
        network = self.tv.Builder()
        product = network.op("aten::mm", network.input("x", (-1, 8)),
                             network.weight("w", weight))
        network.output("y", network.op(chance.choice(["aten::relu", "aten::silu"]), product))
        engine = network.build([self.tv.Profile(x=((1, 8), (4, 8), (64, 8)))], **OPTIONS)
        got = engine.run([x])["y"]
        if not any(self.torch.allclose(got, f(x @ weight), rtol=1e-4, atol=1e-5) for f in (
                self.torch.relu, self.torch.nn.functional.silu)):
            raise AssertionError("build")

    def look(self, chance):
        """What tools ask while others call."""
        held = self.tv.memory_stats()
        if min(held.values()) < 0 or self.refitted.stats()["contexts"] > 8:
            raise AssertionError(f"stats: {held}, {self.refitted.stats()}")
        self.tv.cache.stats()
        self.tv.devices()
        self.refitted.info()
        if chance.random() < 0.2:
            self.tv.release_memory()

    def profile(self, chance):
        """Layers are timed, of one engine or of all that are called meanwhile."""
        x = self.input(chance)
        self.refitted.profile([x], 2)
        with self.tv.profile(runs=2):
            self.equal("profile", self.program(x), self.module(x))

    def declare(self, chance):
        """An operator of the thread's own, while others compile."""
        with self.lock:
            self.declared += 1
            name = f"soak::op_{self.declared}"
        double = self.tv.custom_op(name, "(Tensor x) -> Tensor y", DOUBLE, None,
                                   self.torch.empty_like)
        x = self.input(chance)
        self.equal("declare", double(x), x * 2)

    def run(self, thread: int):
        chance = random.Random(self.seed * 100 + thread)
        acts = [self.call] * 6 + [self.call_refitted] * 4 + [self.call_script] * 2 + [
            self.load, self.refit, self.compile, self.build, self.look, self.profile, self.declare]
        while time.monotonic() < self.end and not self.failures:
            act = chance.choice(acts)
            captures = act in (self.compile, self.build)  # Dynamo, torch.export: one at a time
            if captures and not self.capturing.acquire(blocking=False):
                continue
            try:
                act(chance)
            except Exception as error:  # what is wrong in a thread is told by the main one
                self.failures.append(f"{act.__name__}: {type(error).__name__}: {error}")
            finally:
                if captures:
                    self.capturing.release()
            with self.lock:
                self.done[act.__name__] = self.done.get(act.__name__, 0) + 1


def stress(seconds: float, seed: int) -> None:
    faulthandler.dump_traceback_later(seconds + LONGEST, exit=True)
    shared = Stress(seconds, seed)
    sys.setswitchinterval(random.Random(seed).choice([5e-3, 1e-4, 1e-6]))
    threads = [threading.Thread(target=shared.run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"threads: {shared.done}", *shared.failures, sep="\n", flush=True)
    sys.exit(bool(shared.failures))


def use_engine() -> bool:
    import torch

    module = net(1)
    fast, x = torch.compile(module, backend="vulkan", options=OPTIONS), torch.ones(3, 8)
    return torch.allclose(fast(x), module(x), rtol=1e-4, atol=1e-5)


def in_child(queue) -> None:
    try:
        queue.put("right" if use_engine() else "wrong")
    except RuntimeError as error:  # DeviceError while an engine is built; one may be there already
        queue.put(str(error))


def children(method: str, used_before: bool) -> None:
    """A child by fork or spawn computes; one that is forked from a process that has used the device
    is told to be spawned. The parent computes on."""
    if used_before:
        use_engine()
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    said = queue.get(timeout=LONGEST / 2)
    child.join(LONGEST / 2)
    print(said)
    wanted = "'spawn'" in said if method == "fork" and used_before else said == "right"
    sys.exit(not (wanted and child.exitcode == 0 and use_engine()))


def leave(after: float) -> None:
    """The interpreter ends while threads compile and call."""
    def work(i):
        while True:
            use_engine()

    use_engine() if after > 1 else None
    for i in range(2):
        threading.Thread(target=work, args=(i,), daemon=True).start()
    time.sleep(after)
    sys.exit(0)


class Outcomes:
    """What became of processes of this file."""

    def __init__(self):
        self.bad: list[str] = []
        self.by_torch = 0  # OWN_OF_TORCH

    def add(self, *arguments: str, within: float = LONGEST) -> None:
        """Runs one, for so many seconds at most."""
        try:
            ended = subprocess.run([sys.executable, __file__, "--here", *arguments],
                                   timeout=within, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode(errors="replace")[-2000:]
            self.bad.append(f"{' '.join(arguments)}: hung\n{said}")
            return
        if arguments[0] == "stress":
            print(*[s for s in ended.stdout.splitlines() if s.startswith("threads: ")], flush=True)
        if (arguments[0] == "leave" and ended.returncode == -signal.SIGABRT
                and OWN_OF_TORCH in ended.stdout):
            self.by_torch += 1
        elif ended.returncode != 0:
            name = (signal.Signals(-ended.returncode).name if ended.returncode < 0
                    else f"status {ended.returncode}")
            self.bad.append(f"{' '.join(arguments)}: {name}\n{ended.stdout[-2000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--processes", type=int, default=60, help="that end at any moment")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--here", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        what, *rest = given.here
        {"stress": lambda: stress(float(rest[0]), int(rest[1])),
         "children": lambda: children(rest[0], rest[1] == "used"),
         "leave": lambda: leave(float(rest[0]))}[what]()
        return
    print(f"seed {given.seed}", flush=True)
    outcomes, chance = Outcomes(), random.Random(given.seed)
    for method in ("fork", "spawn"):
        for used in ("used", "unused"):
            outcomes.add("children", method, used)
    for _ in range(given.processes):
        outcomes.add("leave", f"{chance.uniform(0, 12):.2f}")
    print(f"{given.processes} processes that end at any moment, {outcomes.by_torch} of them by "
          "PyTorch's own abort", flush=True)
    outcomes.add("stress", str(given.seconds), str(chance.randrange(999)),
                 within=given.seconds + LONGEST + 60)  # its own traceback comes first
    print("\n".join(outcomes.bad) or "all ended well")
    sys.exit(bool(outcomes.bad))


if __name__ == "__main__":
    main()
