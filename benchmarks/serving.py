"""Latency of one network beside eager and inductor: every way in alternation in one process.

Two columns. "serving": inputs come from pinned host memory and outputs go there, as in a server;
no other work is on the GPU between the calls. "between kernels": the same with a kernel of CUDA's
before and after each call, as a model has it of which one part is compiled. Times are the host's
clock, from the first copy to the end of the last.

Beside the times, the most memory that a call holds (peak_memory.py).

Precision "mixed": a float32 network with enabled_precisions={torch.float32, torch.float16}, beside
the others in float32.
"""

import resource
import statistics
import time
import warnings
from pathlib import Path

ROUNDS, WARM, TIMED = 5, 3, 10
PRECISIONS = {"tf32": "float32", "fp32": "float32", "fp16": "float16", "mixed": "float32"}
COLUMNS = ("serving", "between kernels")


def ways(device):
    """Names of what is compared."""
    return ["eager", "inductor", *(["inductor+graphs"] if device == "cuda" else []), "vulkan"]


def set_precision(precision):
    """TF32 for every way or for none."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


class Row:
    """One network, batch and precision: its module compiled each way, and its inputs."""

    def __init__(self, network, batch, precision, options):
        import torch

        self.key = {"network": network.name, "batch": batch, "precision": precision,
                    "device": options["device"]}
        self.network, self.options, self.precision = network, options, precision
        self.device = options["device"]
        dtype = getattr(torch, PRECISIONS[precision])
        self.model = network.make(options["reduced"]).to(self.device, dtype)
        given = network.inputs(batch, options["reduced"], 0)
        self.host = {k: v.to(dtype) if v.is_floating_point() else v for k, v in given.items()}
        if self.device == "cuda":
            self.host = {k: v.pin_memory() for k, v in self.host.items()}
        self.inputs = {k: v.to(self.device) for k, v in self.host.items()}
        self.host_output = None
        self.calls, self.build_s, self.failures = {}, {}, {}
        self.vulkan_calls = []

    def build(self, names, note):
        """Compiles and warms these ways, saying so; one that fails is noted and left out."""
        set_precision(self.precision)
        for name in names:
            if name not in self.options["ways"]:
                continue
            start = time.perf_counter()
            try:
                call = self._compile(name)
                for _ in range(3):
                    output = self._step(call, "serving")
                self.calls[name] = call
                self.host_output = self.host_output if self.host_output is not None else (
                    self._like(output))
            except Exception as error:  # the other ways are worth a row
                self.failures[name] = f"{type(error).__name__}: {error}"[:500]
            self.build_s[name] = time.perf_counter() - start
            note(f"{self.network.name} b{self.key['batch']} {self.precision}: {name} "
                 f"{self.failures.get(name, 'built')} in {self.build_s[name]:.1f} s")

    def _compile(self, name):
        import torch

        from torch_vulkan._fx import engine_call

        if name == "eager":
            return self.model
        if name == "inductor":
            return torch.compile(self.model, dynamic=False)
        if name == "inductor+graphs":
            return torch.compile(self.model, mode="reduce-overhead", dynamic=False)
        settings = {"disable_tf32": self.precision != "tf32",
                    "optimization_level": self.options["level"]}
        if self.precision == "mixed":
            settings["enabled_precisions"] = {torch.float32, torch.float16}
        fast = torch.compile(self.model, backend="vulkan", options=settings, dynamic=False)
        with engine_call.collected(self.vulkan_calls):
            fast(**self.inputs)
        return fast

    def _like(self, output):
        import torch

        return torch.empty(output.shape, dtype=output.dtype, pin_memory=self.device == "cuda")

    def _step(self, call, column):
        """One call, from host memory to host memory."""
        import torch

        if self.device != "cuda":
            return call(**self.inputs)[0]
        torch.compiler.cudagraph_mark_step_begin()
        for key, value in self.host.items():
            self.inputs[key].copy_(value, non_blocking=True)
        if column != "serving":
            for value in self.inputs.values():
                value.add_(0)
        output = call(**self.inputs)[0]
        if column != "serving":
            output = output + 0
        if self.host_output is not None:
            self.host_output.copy_(output, non_blocking=True)
        torch.cuda.synchronize()
        return output

    def time(self):
        """The row of the table: minimum and median by way and column, in ms."""
        import torch

        set_precision(self.precision)
        columns = COLUMNS if self.device == "cuda" else ("call",)
        times = {(name, column): [] for name in self.calls for column in columns}
        for _ in range(self.options["rounds"]):
            for name, call in self.calls.items():
                for column in columns:
                    for _ in range(WARM):
                        self._step(call, column)
                    for _ in range(TIMED):
                        start = time.perf_counter()
                        self._step(call, column)
                        times[name, column].append((time.perf_counter() - start) * 1e3)
        row = dict(self.key)
        row["ms"] = {column: {name: {"min": min(times[name, column]),
                                     "median": statistics.median(times[name, column])}
                              for name in self.calls} for column in columns}
        row["build_s"] = {name: round(s, 2) for name, s in self.build_s.items()}
        row["engines"] = len(self.vulkan_calls)
        row["dispatches"] = sum(call.record.dispatches for call in self.vulkan_calls)
        row["failures"] = self.failures
        if "vulkan" in self.calls and "eager" in self.calls:
            ours = self.calls["vulkan"](**self.inputs)[0].float()
            set_precision("fp32")
            theirs = self.model(**self.inputs)[0].float()
            row["difference"] = ((ours - theirs).abs().max() / theirs.abs().max()).item()
        row["peak_bytes"] = {name: self._peak_bytes(name) for name in self.calls}
        row["torch"] = torch.__version__
        row["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return row

    def _peak_bytes(self, name):
        import peak_memory

        given = [*self.model.parameters(), *self.model.buffers(), *self.inputs.values()]
        call = self.calls[name]
        return peak_memory.peak_bytes(lambda: call(**self.inputs), given, self.device,
                                      runs_engines=name == "vulkan")


def write_layers(row, folder):
    """The times of the engines' layers, slowest first, in a file named after the row."""
    import torch_vulkan as tv

    with tv.profile(runs=20) as profile:
        row.calls["vulkan"](**row.inputs)
    folder.mkdir(parents=True, exist_ok=True)
    name = "_".join(str(row.key[part]) for part in ("network", "batch", "precision"))
    (folder / f"{name.replace('/', '-')}.txt").write_text(profile.table() + "\n")


def work(case, options, pipe):
    """A process: builds what torch compiles, says so, and does the rest when it is told to."""
    warnings.filterwarnings("ignore")
    import torch

    from torch_vulkan._device import cuda_memory

    from workloads.networks import NETWORKS

    name, batch, precision = case

    def note(text):
        pipe.send({"note": text})

    note(f"{name} b{batch} {precision}: started")
    # A row where Dynamo gave up would time eager under another name.
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    try:
        with torch.no_grad():
            if options["device"] == "cuda":
                cuda_memory.allocate_shareable()
            row = Row(NETWORKS[name], batch, precision, options)
            row.build(["eager", "inductor", "inductor+graphs"], note)
            pipe.send("ready")
            pipe.recv()
            row.build(["vulkan"], note)
            pipe.send(row.time())
            if options["roofline"]:
                import roofline

                roofline.draw(row, options["roofline"])
            if options["layers"]:
                write_layers(row, Path(options["layers"]))
    except Exception as error:
        pipe.send({"network": name, "batch": batch, "precision": precision,
                   "failures": {"all": f"{type(error).__name__}: {error}"[:500]}})
    pipe.send("done")


def _receive(process, pipe, deadline, wanted, on_row):
    """Hands rows on until one of the messages `wanted` comes, and returns it; None where the
    process died or the time is over."""
    while True:
        while not pipe.poll(0.1):
            if not process.is_alive() or time.monotonic() > deadline:
                return None
        try:
            message = pipe.recv()
        except EOFError:
            return None
        if message in wanted:
            return message
        on_row(message)


def _wave(cases, options, deadline, on_row):
    """Rows whose processes build side by side, and are timed one after another."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    workers = []
    for case in cases:
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(case, options, theirs))
        process.start()
        theirs.close()
        workers.append((case, process, ours))
    states = [_receive(process, pipe, deadline, ("ready", "done"), on_row)
              for _, process, pipe in workers]
    for state, (case, process, pipe) in zip(states, workers, strict=True):
        if state == "ready":
            pipe.send("go")
            state = _receive(process, pipe, deadline, ("done",), on_row)
        if state is None:
            on_row(dict(zip(("network", "batch", "precision"), case, strict=True)) | {
                "failures": {"all": "no answer in time, or a crash"}})
    for _, process, _ in workers:
        process.join(5)
        if process.is_alive():
            process.kill()


def run(cases, options, on_row):
    """All rows, `options["together"]` at a time: building takes most of the time and many cores,
    and only where nothing else runs are times worth something."""
    deadline = time.monotonic() + options["timeout"]
    for first in range(0, len(cases), options["together"]):
        _wave(cases[first:first + options["together"]], options, deadline, on_row)


def geomean(values):
    """Geometric mean; None of nothing."""
    values = [v for v in values if v]
    return statistics.geometric_mean(values) if values else None


def line(row):
    """One row as text."""
    import peak_memory

    head = f"{row['network']:16} b{row.get('batch', '?'):<3} {row.get('precision', ''):5}"
    if "ms" not in row:
        return f"{head} FAIL {row['failures']}"
    cells = []
    for column, by_way in row["ms"].items():
        cells.append(f"{column}: " + "  ".join(
            f"{name} {t['median']:.3f} ({t['min']:.3f})" for name, t in by_way.items()))
    end = f"  [{row['engines']} engines, {row['dispatches']} dispatches"
    end += f", build {row['build_s'].get('vulkan', 0):.1f} s"
    end += f", difference {row['difference']:.1e}]" if "difference" in row else "]"
    if row.get("peak_bytes"):
        end += "\n    " + peak_memory.text(row["peak_bytes"])
    failed = "".join(f"\n    {name} FAILED: {text}" for name, text in row["failures"].items())
    return head + " | ".join(cells) + end + failed


def ratios(rows):
    """Geometric means and worst cases of the medians: others' time over ours."""
    lines = []
    good = [row for row in rows if "vulkan" in next(iter(row.get("ms", {"": {}}).values()))]
    for column in sorted({c for row in good for c in row["ms"]}):
        for other in sorted({w for row in good for w in row["ms"][column]} - {"vulkan"}):
            for batch in sorted({row["batch"] for row in good}):
                found = [row["ms"][column][other]["median"] / row["ms"][column]["vulkan"]["median"]
                         for row in good if row["batch"] == batch and other in row["ms"][column]]
                if found:
                    lines.append(f"{column}, batch {batch}: {other} / vulkan geomean "
                                 f"{geomean(found):.2f}, worst {min(found):.2f} of {len(found)}")
    return lines + memory_ratios(good)


def memory_ratios(rows):
    """Geometric means and worst cases of the peaks of memory: ours over others'. "engines": without
    what the caller keeps, which is what a device holds whose weights and inputs are the host's."""
    lines = []
    for other in sorted({way for row in rows for way in row["peak_bytes"]} - {"vulkan"}):
        for batch in sorted({row["batch"] for row in rows}):
            peaks = [row["peak_bytes"] for row in rows
                     if row["batch"] == batch and other in row["peak_bytes"]]
            for ours, part in (("vulkan", "all"), ("engines", "engines")):
                found = [peak["vulkan"][part] / peak[other]["all"] for peak in peaks]
                if found:
                    lines.append(f"peak memory, batch {batch}: {ours} / {other} geomean "
                                 f"{geomean(found):.2f}, worst {max(found):.2f} of {len(found)}")
    return lines
