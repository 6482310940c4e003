"""Text generation with random weights: transformers' `generate` with a static cache, in eager mode,
by inductor and by torch_vulkan, and tv.generate ("loop").

    python benchmarks/generate.py                            a decoder of 15 M parameters, float32
    python benchmarks/generate.py --model 125m --prompt 128 --tokens 32
    python benchmarks/generate.py --model 1b --dtype bfloat16 --device cuda --ways loop \\
        --weights float int8 int4 --prompt 512 --level 2 --json out.json
    python benchmarks/generate.py --model 8b --dtype bfloat16 --device cuda --ways vulkan \\
        --prompt 512 --steps-only                            no prompt is compiled
    python benchmarks/generate.py --ways vulkan --layers     what a token's launches take
    python benchmarks/generate.py --model 8b --dtype bfloat16 --device cuda --ways loop \\
        --weight-budget 0 0.5                                weights that are streamed

A row is printed, and the JSON file written, as soon as it is measured; further rounds, in
alternation, are in the table at the end. A row has the prompt's tokens a second, the time to the
first token, the time of each further one (median), and for torch_vulkan the launches of a token and
the bytes of launches, and of PyTorch's copies, that pass over a whole cache for a token. Memory:
what a token reads at least, the weights once and the used part of the cache, over its time, and
that as a share of --bandwidth, or of what a large copy reaches here. inductor has CUDA graphs on
CUDA (mode "reduce-overhead"). The time of a token includes what `generate` does in
Python; --step times the forward call alone. Of "loop": host_us, from the end of one call of the
step's engine to the beginning of the next, and call_us, the call, which on CPU drivers computes and
on GPUs only submits.

With --weight-budget the ways of torch_vulkan are also measured with so many bytes of weights kept
on the device, or with that share of them (1 or less). streamed_gb is what a token copies,
transfer_ms the time that this takes by --transfer, or by what a large copy from pinned memory
reaches here, and share_of_max a token's time over the longer of transfer_ms and the time with all
weights kept.

Graphs are compiled for the sizes that are measured; --dynamic has them compiled for all sizes, as
they are after calls with two lengths.
"""

import argparse
import json
import statistics
import sys
import time
import unittest.mock
import warnings
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from workloads.decoders import cache_moves  # noqa: E402

# hidden, intermediate, layers, heads, heads of keys, vocabulary: 1b and 8b as Llama 3 has them.
MODELS = {
    "15m": (288, 768, 6, 6, 6, 32000),
    "125m": (768, 2048, 12, 12, 4, 32000),
    "1b": (2048, 8192, 16, 32, 8, 128256),
    "8b": (4096, 14336, 32, 32, 8, 128256),
}
WAYS = ("eager", "inductor", "vulkan", "loop")
WEIGHTS = ("float", "int8", "int4")
STARTED = time.perf_counter()


def say(text):
    print(f"[{time.perf_counter() - STARTED:6.1f} s] {text}", flush=True)


def make(options, weights):
    """A model whose weights are made where they are used, in their own type."""
    hidden, wide, layers, heads, of_keys, vocabulary = MODELS[options.model]
    config = transformers.LlamaConfig(
        hidden_size=hidden, intermediate_size=wide, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=of_keys, vocab_size=vocabulary,
        max_position_embeddings=1 << 17, tie_word_embeddings=options.model in ("15m", "1b"),
        pad_token_id=0, eos_token_id=None)
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, options.dtype))
    try:
        with torch.device(options.device):
            model = transformers.LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(default)
    model.generation_config.eos_token_id = None
    if weights == "float":
        return model
    import torch_vulkan as tv

    return tv.quantize(model, weights, inplace=True)


class Times:
    """A streamer of `generate` that notes when each token came."""

    def __init__(self, wait):
        self._wait, self.at = wait, []

    def put(self, tokens):
        self._wait()
        self.at.append(time.perf_counter())

    def end(self):
        pass


class Way:
    """One way to run the model, and what was measured of it."""

    def __init__(self, name, model, weights, options, budget=None):
        self.name, self.model, self._weights, self._options = name, model, weights, options
        self.label = name if budget is None else f"{name}, {budget / 1e9:.3g} GB kept"
        self.streams = budget is not None
        self.streamed = 0  # bytes
        self._wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
        given = {"optimization_level": options.level, "tuning_seconds": options.tuning_seconds,
                 "weight_budget": budget}
        self._settings = {key: value for key, value in given.items()
                          if value is not None and name in ("vulkan", "loop")}
        self._forward = model.forward
        if name in ("inductor", "vulkan"):
            graphs = name == "inductor" and options.device == "cuda"
            self._forward = torch.compile(model.forward, backend=name,
                                          mode="reduce-overhead" if graphs else None,
                                          options=self._settings or None)
        self.first_s, self.token_s, self.step_s = [], [], []
        self.outputs, self._host = None, {}

    def generate(self, length, tokens, streamer=None):
        options = self._options
        draw = torch.Generator().manual_seed(length)
        ids = torch.randint(3, 30000, (options.batch, length), generator=draw).to(options.device)
        if self.name == "loop":
            import torch_vulkan as tv

            self.outputs = tv.generate(self.model, ids, tokens, **self._settings,
                                       steps_per_submission=options.steps_per_submission)
            return
        with self._compiled():
            self.outputs = self.model.generate(
                ids, max_new_tokens=tokens, do_sample=False, cache_implementation="static",
                disable_compile=True, streamer=streamer)

    def _compiled(self):
        """The model with this way's forward: all ways share its weights."""
        return unittest.mock.patch.object(self.model, "forward", self._forward)

    def warm_up(self):
        if self._options.steps_only:
            self.steps(2)
            self.step_s.clear()
            return
        if self._options.dynamic:  # two lengths, after which none is compiled again
            self.generate(self._options.prompt // 2 + 1, 3)
            self.generate(self._options.prompt, 3)
        self.generate(self._options.prompt, self._options.tokens)

    def round(self):
        options = self._options
        if options.steps_only:
            self.steps(options.tokens)
            return
        if options.step and self.name != "loop":
            self.steps(options.tokens)
        if self.name == "loop":
            self._round_of_loop()
            return
        times = Times(self._wait)
        self._wait()
        start = time.perf_counter()
        self.generate(options.prompt, options.tokens, times)
        self.first_s.append(times.at[1] - start)
        self.token_s += [b - a for a, b in zip(times.at[1:], times.at[2:])]

    def _round_of_loop(self):
        """The text, and the shortest one whose cache has the same room."""
        from torch_vulkan._generate.generation import _CACHE_STEP

        options, took = self._options, []
        least = max(1, (options.prompt + options.tokens - 1) // _CACHE_STEP * _CACHE_STEP
                    - options.prompt + 1)
        if least == options.tokens:
            raise ValueError(f"--tokens: want more than {least} for this prompt")
        for tokens in (least, options.tokens):
            self._wait()
            start = time.perf_counter()
            self.generate(options.prompt, tokens)
            self._wait()
            took.append(time.perf_counter() - start)
        if least == 1:
            self.first_s.append(took[0])
        self.token_s.append((took[1] - took[0]) / (options.tokens - least))

    def steps(self, count):
        """Times of forward calls of one token, without the rest of `generate`. The cache is as it
        is behind a prompt, which is not run."""
        options, config = self._options, self.model.config
        cache = transformers.StaticCache(config=config,
                                         max_cache_len=options.prompt + options.tokens + 8)
        dtype = getattr(torch, options.dtype)
        cache.early_initialization(options.batch, config.num_key_value_heads, config.head_dim,
                                   dtype, torch.device(options.device))
        for layer in cache.layers:
            layer.keys.normal_()
            layer.values.normal_()
            layer.cumulative_length.fill_(options.prompt)
        ids = torch.randint(3, 30000, (options.batch, 1), device=options.device)
        with torch.no_grad(), self._compiled():
            for _ in range(count):
                self._wait()
                start = time.perf_counter()
                self.model(ids, cache=cache)
                self._wait()
                self.step_s.append(time.perf_counter() - start)

    def measure_host(self):
        """Of the loop: what the host does for a token."""
        from torch_vulkan._generate import generation

        between, within, last = [], [], [None]
        call_engine = generation._call_engine

        def timed(*arguments):
            begin = time.perf_counter()
            if last[0] is not None:
                between.append(begin - last[0])
            call_engine(*arguments)
            last[0] = time.perf_counter()
            within.append(last[0] - begin)

        with unittest.mock.patch.object(generation, "_call_engine", timed):
            self.generate(self._options.prompt, self._options.tokens)
        if between:
            us = 1e6 / self._options.steps_per_submission
            self._host = {"host_us": statistics.median(between) * us,
                          "call_us": statistics.median(within) * us}

    def row(self):
        options, median = self._options, statistics.median
        row = {"weights": self._weights, "way": self.label}
        if self.token_s:
            row["token_ms"] = median(self.token_s) * 1e3
        if self.first_s:
            row["first_token_ms"] = median(self.first_s) * 1e3
            row["prompt_tokens_per_s"] = options.batch * options.prompt / median(self.first_s)
        if self.step_s:
            row["step_ms"] = median(self.step_s) * 1e3
        seconds = median(self.token_s or self.step_s)
        row["tokens_per_s"] = options.batch / seconds
        row["bytes_read"] = self._bytes_read()
        row["gb_per_s"] = row["bytes_read"] / seconds / 1e9
        row["share_of_bandwidth"] = row["gb_per_s"] / options.bandwidth
        return row | self._host

    def _bytes_read(self):
        config = self.model.config
        table = self.model.get_input_embeddings().weight
        held = {t.data_ptr(): t.nbytes for t in [*self.model.parameters(), *self.model.buffers()]}
        head = self.model.get_output_embeddings()
        if getattr(head, "weight", None) is not table:
            held.pop(table.data_ptr())  # a token reads one row
        used = self._options.prompt + self._options.tokens // 2
        size = getattr(torch, self._options.dtype).itemsize
        cache = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * used
        return sum(held.values()) + cache * self._options.batch * size


def launches(way, options):
    """(layers of a token's call, bytes that it moves where it passes over a whole cache)."""
    import torch_vulkan as tv
    from torch_vulkan._fx import mutation

    native = []
    write_over = mutation.write_over

    def counted(tensor, value):
        native.append(tensor.numel() * tensor.element_size())
        write_over(tensor, value)

    with unittest.mock.patch.object(mutation, "write_over", counted), tv.profile(runs=1) as p:
        if options.steps_only:
            way.steps(2)
        else:
            way.generate(options.prompt, options.tokens)
    if options.steps_only:
        del way.step_s[-2:]
    last = max(layer["call"] for layer in p.layers)
    # Those of other ranges of sizes have empty grids, which are not launched.
    layers = [layer for layer in p.layers if layer["call"] == last and layer["time_us"] > 0]
    config = way.model.config
    size = (options.batch * config.num_key_value_heads * config.head_dim * options.prompt
            * getattr(torch, options.dtype).itemsize)
    return layers, sum(layer["bytes"] for layer in cache_moves(layers, size)) + sum(native)


def measured_bandwidth(device):
    """GB/s of a copy within the device's memory, read and written."""
    source = torch.ones(1 << (28 if device == "cuda" else 26), device=device)
    return 2 * copied_per_second(source, torch.empty_like(source)) / 1e9


def copied_per_second(source, target):
    """Bytes that are copied a second, the best of several times."""
    best = float("inf")
    wait = torch.cuda.synchronize if target.is_cuda else lambda: None
    for _ in range(5):
        wait()
        start = time.perf_counter()
        target.copy_(source)
        wait()
        best = min(best, time.perf_counter() - start)
    return source.nbytes / best


def table(rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names] + [[f"{row[n]:.4g}" if isinstance(row.get(n), float) else str(row.get(n, "–"))
                        for n in names] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(line, widths)) for line in cells)


class Rows:
    """What was measured so far: printed and written as it comes."""

    def __init__(self, options):
        self._options, self._rows = options, {}

    def put(self, weights, name, row):
        self._rows[weights, name] = row
        say("  ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                      for key, value in row.items()))
        self.write()

    def all(self):
        return [*self._rows.values()]

    def write(self):
        options = self._options
        if options.json:
            options.json.write_text(json.dumps({
                "options": {k: str(v) for k, v in vars(options).items()},
                "torch": torch.__version__, "transformers": transformers.__version__,
                "rows": self.all()}, indent=1) + "\n")


def first_row(way, options):
    """Compiles and measures a way for the first time; what it is beside times."""
    if way.name in ("vulkan", "loop"):
        from torch_vulkan._fx import engine_call

        calls = []
        with engine_call.collected(calls):
            way.warm_up()
        # One engine reads the prompt, one makes the tokens; of the same weights. The table of
        # embeddings is read where it is, a few rows.
        on_host = max((call.engine.weight_memory()[1] for call in calls), default=0)
        way.streamed = max(0, on_host - way.model.get_input_embeddings().weight.nbytes)
    else:
        way.warm_up()
    way.round()
    if way.name == "loop" and not options.steps_only:
        way.measure_host()
    found = {}
    if way.name in ("vulkan", "loop"):
        layers, found["cache_bytes_copied"] = launches(way, options)
        found["launches_per_token"] = len(layers)
        found["launches_per_layer"] = len(layers) / way.model.config.num_hidden_layers
        if options.layers:
            for layer in layers:
                print(f"{layer['time_us']:9.1f} µs  {layer['tactic']:32}  {layer['name']}")
    return found


def measure(weights, options, rows):
    model = make(options, weights)
    say(f"{weights}: weights are made")
    ways = {}
    of_all = sum(t.nbytes for t in [*model.parameters(), *model.buffers()])
    asked = [(name, budget) for name in options.ways for budget in (None, *options.weight_budget)
             if budget is None or name in ("vulkan", "loop")]
    kept = {}  # name → ms of a token with all weights on the device
    for name, budget in asked:
        if budget is not None:
            budget = int(budget * of_all if budget <= 1 else budget)
        way = Way(name, model, weights, options, budget)
        try:
            found = first_row(way, options)
        except Exception as error:  # inductor needs a C++ compiler, or Triton
            rows.put(weights, way.label, {"weights": weights, "way": way.label,
                                          "failure": f"{type(error).__name__}: {error}"[:200]})
            continue
        ways[way] = found
        if way.streams:
            found |= streaming(way, kept.get(name), options)
        else:
            kept[name] = token_ms(way)
        rows.put(weights, way.label, way.row() | found)
    for _ in range(options.rounds - 1):
        for way in ways:
            way.round()
    first = next(iter(ways), None)
    for way, found in ways.items():
        if way.outputs is not None:
            found["same_tokens"] = bool(torch.equal(way.outputs, first.outputs))
        if options.rounds > 1 or len(ways) > 1:
            rows.put(weights, way.label, way.row() | found)


def token_ms(way):
    row = way.row()
    return row.get("token_ms", row.get("step_ms"))


def streaming(way, kept_ms, options):
    """What streaming costs a way, beside the longer of computing and copying."""
    found = {"streamed_gb": way.streamed / 1e9,
             "transfer_ms": way.streamed / options.transfer / 1e6}
    if kept_ms is not None:
        found["share_of_max"] = token_ms(way) / max(found["transfer_ms"], kept_ms)
    return found


def measured_transfer(device):
    """GB/s of a copy from pinned host memory to the device."""
    on_gpu = device == "cuda"
    source = torch.ones(1 << (28 if on_gpu else 26), pin_memory=on_gpu)
    return copied_per_second(source, torch.empty_like(source, device=device)) / 1e9


def parsed():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="15m")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=64, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=32, help="tokens that are added, 2 or more")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--weights", nargs="+", choices=WEIGHTS, default=["float"])
    parser.add_argument("--level", type=int, help="optimization_level of torch_vulkan")
    parser.add_argument("--tuning-seconds", type=int, help="tuning_seconds of torch_vulkan")
    parser.add_argument("--dynamic", action="store_true", help="graphs for any length")
    parser.add_argument("--step", action="store_true", help="also time the forward call alone")
    parser.add_argument("--steps-only", action="store_true",
                        help="only that: no prompt is compiled or run")
    parser.add_argument("--layers", action="store_true", help="print a token's launches")
    parser.add_argument("--steps-per-submission", type=int, default=1,
                        help="tokens that the loop makes by one submission")
    parser.add_argument("--bandwidth", type=float,
                        help="GB/s of the device's memory; not given: what a copy reaches")
    parser.add_argument("--weight-budget", nargs="+", type=float, default=[],
                        help="bytes of weights kept on the device, or 1 or less: a share of them")
    parser.add_argument("--transfer", type=float,
                        help="GB/s from host memory to the device; not given: what a copy reaches")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if any(not 0 <= budget < 2 ** 60 for budget in options.weight_budget):
        parser.error("--weight-budget: want 0 or more")
    if options.transfer is not None and options.transfer <= 0:
        parser.error("--transfer: want a number above 0")
    if options.bandwidth is not None and options.bandwidth <= 0:
        parser.error("--bandwidth: want a number above 0")
    if options.tokens < 2 or options.prompt < 1 or options.rounds < 1:
        parser.error("--tokens: want 2 or more, --prompt and --rounds 1 or more")
    if options.steps_only and "loop" in options.ways:
        options.ways = [name for name in options.ways if name != "loop"]
        if not options.ways:
            parser.error("--steps-only: the loop always runs a prompt; want another of --ways")
    return options


def main():
    options = parsed()
    if options.bandwidth is None:
        options.bandwidth = measured_bandwidth(options.device)
        say(f"a copy reaches {options.bandwidth:.1f} GB/s")
    if options.weight_budget and options.transfer is None:
        options.transfer = measured_transfer(options.device)
        say(f"a copy from the host reaches {options.transfer:.1f} GB/s")
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    rows = Rows(options)
    for weights in options.weights:
        measure(weights, options, rows)
        torch._dynamo.reset()  # the model is freed
    print(table(rows.all()), flush=True)


if __name__ == "__main__":
    main()
