"""What one call of a tiny engine costs: y = relu(x) of 16 elements, in µs.

    python benchmarks/call_overhead.py                  CPU tensors
    python benchmarks/call_overhead.py --device cuda    CUDA tensors; each call is waited for

"execute" is the engine's operator alone, without torch.compile around it. The last line is the
check of 200 weights, which every call makes: execute with them less execute without.
"""

import argparse
import warnings

import torch
from timing import per_call_us

import torch_vulkan  # noqa: F401  (registers the operator)
from torch_vulkan._device import cuda_memory
from torch_vulkan._fx import engine_call


def compiled(function, backend, *args):
    """A compiled function and the calls of its engines."""
    torch._dynamo.reset()
    options = {"options": {"min_block_size": 1}} if backend == "vulkan" else {}
    fast = torch.compile(function, backend=backend, dynamic=False, **options)
    calls = []
    with engine_call.collected(calls):
        fast(*args)
    return fast, calls


def many_weights(count, device):
    """A function of `count` weights that costs the device little."""
    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.values = torch.nn.ParameterList(torch.randn(16) for _ in range(count))

        def forward(self, x):
            return torch.relu(x + torch.cat(list(self.values))[:16])

    return Sum().to(device)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--weights", type=int, default=200)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    execute = torch.ops.torch_vulkan.execute.default
    cuda = options.device == "cuda"
    if cuda:
        cuda_memory.allocate_shareable()

    def show(name, call):
        def waited():
            call()
            torch.cuda.synchronize()

        low, median = per_call_us(waited if cuda else call, options.calls, rounds=7)
        print(f"{name:28} {low:8.1f} min {median:8.1f} median µs a call", flush=True)
        return low

    with torch.no_grad():
        x = torch.randn(16, device=options.device)
        show("eager", lambda: torch.relu(x))
        plain, _ = compiled(lambda t: torch.relu(t), "aot_eager", x)
        show("aot_eager", lambda: plain(x))
        fast, calls = compiled(lambda t: torch.relu(t), "vulkan", x)
        show("vulkan", lambda: fast(x))
        engine = calls[0].engine
        show("execute", lambda: execute([x], [], engine))
        if cuda:
            low, _ = per_call_us(lambda: execute([x], [], engine), options.calls, rounds=7)
            torch.cuda.synchronize()
            print(f"{'execute, not waited for':28} {low:8.1f} min")
        model = many_weights(options.weights, options.device)
        _, (few,) = compiled(model, "vulkan", x)
        weights = list(model.parameters())[:len(few.weight_positions)]
        one = many_weights(1, options.device)
        _, (single,) = compiled(one, "vulkan", x)
        with_all = show(f"{len(weights)} weights", lambda: few.outputs([x], [*weights]))
        weight = list(one.parameters())
        with_one = show("1 weight", lambda: single.outputs([x], [*weight]))
        print(f"{len(weights)} weights cost {with_all - with_one:.1f} µs more than one")


if __name__ == "__main__":
    main()
