"""A layer of an LSTM as one operator, beside its steps written out (nn.LSTMCell in a loop).

    python benchmarks/recurrent.py [--units 256] [--steps 200] [--batch 4] [--level 0]

Columns: seconds until the engine is built, without caches; milliseconds of a call, the median; the
size of the engine without its weights.
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
from torch import nn


class Unrolled(nn.Module):
    """The same layer, step by step."""

    def __init__(self, layer):
        super().__init__()
        self.cell = nn.LSTMCell(layer.input_size, layer.hidden_size)
        self.cell.load_state_dict({name.removesuffix("_l0"): value
                                   for name, value in layer.state_dict().items()})

    def forward(self, x):
        state, rows = None, []
        for step in x:
            state = self.cell(step, state)
            rows.append(state[0])
        return torch.stack(rows), state


def measure(title, model, x, level):
    import torch_vulkan as tv

    start = time.perf_counter()
    program = tv.compile(model, [x], optimization_level=level, min_block_size=1)
    built = time.perf_counter() - start
    times = []
    with torch.no_grad():
        for _ in range(12):
            start = time.perf_counter()
            y = program(x)[0]
            times.append(time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "engine.vke")
        tv.engines(program)[0].save(path, strip_weights=True)
        size = os.path.getsize(path)
    print(f"{title:10} {built:8.1f} s {statistics.median(times[2:]) * 1e3:9.1f} ms "
          f"{size / 1e3:8.0f} kB", flush=True)
    return y


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("units", 256), ("steps", 200), ("batch", 4), ("level", 0)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    caches = tempfile.TemporaryDirectory()
    os.environ["XDG_CACHE_HOME"] = caches.name  # the driver's cache of kernels, too
    torch.manual_seed(0)
    layer = nn.LSTM(options.units, options.units).eval()
    x = torch.randn(options.steps, options.batch, options.units)
    results = [measure("operator", layer, x, options.level),
               measure("unrolled", Unrolled(layer).eval(), x, options.level)]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    caches.cleanup()


if __name__ == "__main__":
    main()
