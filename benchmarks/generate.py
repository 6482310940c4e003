"""Text generation with random weights: transformers' `generate` with a static cache, in eager mode,
by inductor and by torch_vulkan, in alternation.

    python benchmarks/generate.py                            a decoder of 15 M parameters, float32
    python benchmarks/generate.py --model 125m --prompt 128 --tokens 32
    python benchmarks/generate.py --model 1b --dtype bfloat16 --device cuda --json out.json
    python benchmarks/generate.py --ways vulkan --layers     what a token's launches take

For each way: the prompt's tokens a second, the time to the first token, the time of each further
one (median), and for torch_vulkan the launches of a token and the bytes of caches that a token
copies. Memory: what a token reads at least, the weights once and the used part of the cache, over
its time. The time of a token includes what `generate` does in Python; --step times the forward call
alone.
"""

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path

import torch
import transformers

# hidden, intermediate, layers, heads, heads of keys, vocabulary: 1b and 8b as Llama 3 has them.
MODELS = {
    "15m": (288, 768, 6, 6, 6, 32000),
    "125m": (768, 2048, 12, 12, 4, 32000),
    "1b": (2048, 8192, 16, 32, 8, 128256),
    "8b": (4096, 14336, 32, 32, 8, 128256),
}
WAYS = ("eager", "inductor", "vulkan")


def make(options):
    hidden, wide, layers, heads, of_keys, vocabulary = MODELS[options.model]
    config = transformers.LlamaConfig(
        hidden_size=hidden, intermediate_size=wide, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=of_keys, vocab_size=vocabulary,
        max_position_embeddings=1 << 17, tie_word_embeddings=options.model in ("15m", "1b"),
        pad_token_id=0, eos_token_id=None)
    torch.manual_seed(0)
    with torch.device(options.device):
        model = transformers.LlamaForCausalLM(config)
    model = model.to(getattr(torch, options.dtype)).eval()
    model.generation_config.eos_token_id = None
    return model


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

    def __init__(self, name, options):
        self.name, self._options = name, options
        self._wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
        self.model = make(options)
        if name != "eager":
            self.model.forward = torch.compile(self.model.forward, backend=name)
        self.first_s, self.token_s, self.step_s = [], [], []
        self.outputs = None

    def generate(self, length, tokens, streamer=None):
        draw = torch.Generator().manual_seed(length)
        ids = torch.randint(3, 30000, (self._options.batch, length), generator=draw)
        self.outputs = self.model.generate(
            ids.to(self._options.device), max_new_tokens=tokens, do_sample=False,
            cache_implementation="static", disable_compile=True, streamer=streamer)

    def warm_up(self):
        """Two lengths, after which none is compiled again."""
        self.generate(self._options.prompt // 2 + 1, 3)
        self.generate(self._options.prompt, 3)
        self.generate(self._options.prompt, self._options.tokens)

    def round(self):
        times = Times(self._wait)
        streamer = times if self._options.batch == 1 else None
        self._wait()
        start = time.perf_counter()
        self.generate(self._options.prompt, self._options.tokens, streamer)
        if streamer is None:  # a streamer takes one text only
            self._wait()
            self.token_s.append((time.perf_counter() - start) / self._options.tokens)
            return
        self.first_s.append(times.at[1] - start)
        self.token_s += [b - a for a, b in zip(times.at[1:], times.at[2:])]

    def steps(self):
        """Times of forward calls of one token, without the rest of `generate`."""
        options = self._options
        cache = transformers.StaticCache(
            config=self.model.config, max_cache_len=options.prompt + options.tokens + 8)
        ids = torch.randint(3, 30000, (options.batch, options.prompt), device=options.device)
        with torch.no_grad():
            self.model(ids, cache=cache)
            for _ in range(options.tokens):
                self._wait()
                start = time.perf_counter()
                self.model(ids[:, :1], cache=cache)
                self._wait()
                self.step_s.append(time.perf_counter() - start)

    def row(self):
        options, median = self._options, statistics.median
        row = {"way": self.name, "token_ms": median(self.token_s) * 1e3,
               "tokens_per_s": options.batch / median(self.token_s)}
        if self.first_s:
            row["first_token_ms"] = median(self.first_s) * 1e3
            row["prompt_tokens_per_s"] = options.prompt / median(self.first_s)
        if self.step_s:
            row["step_ms"] = median(self.step_s) * 1e3
        row["bytes_read"] = self._bytes_read()
        row["gb_per_s"] = row["bytes_read"] / median(self.token_s) / 1e9
        return row

    def _bytes_read(self):
        config = self.model.config
        size = next(self.model.parameters()).element_size()
        table = self.model.get_input_embeddings().weight
        weights = {p.data_ptr(): p.numel() for p in self.model.parameters()}
        if not config.tie_word_embeddings:
            weights.pop(table.data_ptr())  # a token reads one row
        used = options_length(self._options)
        cache = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * used
        return (sum(weights.values()) + cache * self._options.batch) * size


def options_length(options):
    """Positions in the cache, in the middle of the generation."""
    return options.prompt + options.tokens // 2


def launches(way):
    """(layers of a token's call, bytes of caches that it copies)."""
    import torch_vulkan as tv
    from torch_vulkan._fx import mutation

    native = []
    write_over = mutation.write_over

    def counted(tensor, value):
        native.append(tensor.numel() * tensor.element_size())
        write_over(tensor, value)

    mutation.write_over = counted
    try:
        with tv.profile(way.model, runs=3) as p:
            way.generate(way._options.prompt, 2)
    finally:
        mutation.write_over = write_over
    last = max(layer["call"] for layer in p.layers)
    # Those of other ranges of sizes have empty grids, which are not launched.
    layers = [layer for layer in p.layers if layer["call"] == last and layer["time_us"] > 0]
    written = sum(layer["bytes"] for layer in layers if layer["name"].endswith("_written"))
    return layers, written + sum(native)


def table(rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names] + [[f"{row[n]:.4g}" if isinstance(row.get(n), float) else str(row.get(n, "–"))
                        for n in names] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(line, widths)) for line in cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="15m")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--step", action="store_true", help="also time the forward call alone")
    parser.add_argument("--layers", action="store_true", help="print a token's launches")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    ways, failed = [], []
    for name in options.ways:
        try:
            way = Way(name, options)
            way.warm_up()
            ways.append(way)
        except Exception as error:  # inductor needs a C++ compiler, or Triton
            failed.append({"way": name, "failure": f"{type(error).__name__}: {error}"[:200]})
    for _ in range(options.rounds):
        for way in ways:
            way.round()
            if options.step:
                way.steps()
    rows = []
    for way in ways:
        row = way.row()
        row["same_tokens"] = bool(torch.equal(way.outputs, ways[0].outputs))
        if way.name == "vulkan":
            layers, row["cache_bytes_copied"] = launches(way)
            row["launches_per_token"] = len(layers)
            row["launches_per_layer"] = len(layers) / way.model.config.num_hidden_layers
            if options.layers:
                for layer in layers:
                    print(f"{layer['time_us']:9.1f} µs  {layer['tactic']:32}  {layer['name']}")
        rows.append(row)
    print(table(rows + failed))
    if options.json:
        options.json.write_text(json.dumps({
            "options": {k: str(v) for k, v in vars(options).items()}, "torch": torch.__version__,
            "transformers": transformers.__version__, "rows": rows + failed}, indent=1) + "\n")


if __name__ == "__main__":
    main()
