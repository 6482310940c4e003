"""Operators with kernels for CPU drivers: vulkan beside eager.

    python benchmarks/cpu_drivers.py [--only TEXT...] [--rounds 15] [--threads 1] [--level 0]

A row has the least and the median of the rounds in ms, in which both ways alternate, and the time
of the processor, of all threads, which what else the machine does changes less; the ratios of the
least follow. Eager has one thread, or --threads.
"""

import argparse
import functools
import statistics
import time

import torch
from torch import nn

import torch_vulkan as tv


def indices(size, *shape):
    return torch.randint(size, shape)


def cases():
    """Name -> (function, arguments)."""
    return rows_and_orders() | planes()


def planes():
    """Resizing, pools and convolutions."""
    image = functools.partial(torch.randn, 1)
    resized = functools.partial(functools.partial, nn.functional.interpolate)
    return {
        "transposed 3x3, stride 2, 128 to 64, 32 x 32": (
            nn.ConvTranspose2d(128, 64, 3, 2, 1, output_padding=1), (image(128, 32, 32),)),
        "transposed 2x2, stride 2, 64 to 32, 64 x 64": (
            nn.ConvTranspose2d(64, 32, 2, 2), (image(64, 64, 64),)),
        "bilinear, 64 x 128 x 128 twice as large": (
            resized(scale_factor=2, mode="bilinear"), (image(64, 128, 128),)),
        "bilinear to 100 x 120, corners aligned": (
            resized(size=(100, 120), mode="bilinear", align_corners=True), (image(64, 60, 60),)),
        "nearest, 64 x 128 x 128 twice as large": (
            resized(scale_factor=2, mode="nearest"), (image(64, 128, 128),)),
        "bicubic, 16 x 64 x 64 twice as large": (
            resized(scale_factor=2, mode="bicubic"), (image(16, 64, 64),)),
        "bilinear with anti-aliasing, half as large": (
            resized(scale_factor=0.5, mode="bilinear", antialias=True), (image(16, 128, 128),)),
        "average pool 3x3, stride 2": (nn.AvgPool2d(3, 2, 1), (image(64, 112, 112),)),
        "average pool 3x3, stride 1": (nn.AvgPool2d(3, 1, 1), (image(128, 28, 28),)),
        "adaptive average pool to 7 x 7": (nn.AdaptiveAvgPool2d(7), (image(256, 28, 28),)),
        "3x3 in 4 groups, 64 x 56 x 56": (
            nn.Conv2d(64, 64, 3, padding=1, groups=4), (image(64, 56, 56),)),
        "3x3 in 8 groups, stride 2, 64 to 128": (
            nn.Conv2d(64, 128, 3, 2, padding=1, groups=8), (image(64, 56, 56),)),
        "3x3 in 23 groups, 368 x 14 x 14": (
            nn.Conv2d(368, 368, 3, padding=1, groups=23), (image(368, 14, 14),)),
        "depthwise 3x3, 144 x 56 x 56": (
            nn.Conv2d(144, 144, 3, padding=1, groups=144), (image(144, 56, 56),)),
    }


def rows_and_orders():
    """Rows taken and added by index, orders of lines."""
    nodes, edges, values = torch.randn(2048, 64), indices(2048, 8192), torch.randn(8192, 64)
    words, chosen = torch.randn(30000, 768), indices(30000, 4096)
    few = indices(512, 2048)
    return {
        "embedding, 4096 of 30000 x 768": (lambda i, w: nn.functional.embedding(i, w),
                                           (chosen, words)),
        "embedding, 128 of 30000 x 768": (lambda i, w: nn.functional.embedding(i, w),
                                          (chosen[:128], words)),
        "index_select, 8192 of 2048 x 64": (lambda x, i: x.index_select(0, i), (nodes, edges)),
        "x[i], 8192 of 2048 x 64": (lambda x, i: x[i], (nodes, edges)),
        "gather of rows, 8192 of 2048 x 64": (
            lambda x, i: x.gather(0, i[:, None].expand(-1, 64)), (nodes, edges)),
        "index_add, 8192 x 64 into 2048": (lambda x, i, v: x.index_add(0, i, v),
                                           (nodes, edges, values)),
        "index_put that adds, the same": (
            lambda x, i, v: x.index_put((i,), v, accumulate=True), (nodes, edges, values)),
        "scatter_add of rows, 2048 x 64 into 512": (
            lambda x, i, v: x.scatter_add(0, i[:, None].expand(-1, 64), v),
            (nodes[:512], few, values[:2048])),
        "embedding's gradient, 512 of 30000 x 256": (
            lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 30000, -1, False),
            (torch.randn(512, 256), chosen[:512])),
        "topk, 50 of 32000": (lambda x: x.topk(50), (torch.randn(1, 32000),)),
        "topk, 50 of 16 x 32000": (lambda x: x.topk(50), (torch.randn(16, 32000),)),
        "topk, 5 of 16 x 1000": (lambda x: x.topk(5), (torch.randn(16, 1000),)),
        "sort, 16 x 4096": (lambda x: x.sort(), (torch.randn(16, 4096),)),
        "sort, 65536": (lambda x: x.sort(), (torch.randn(65536),)),
        "sort of int64, 16 x 4096": (lambda x: x.sort(), (indices(1 << 40, 16, 4096),)),
    }


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def once(call, args):
    """ms on the clock and of the processor."""
    processor, clock = time.process_time(), time.perf_counter()
    call(*args)
    return (time.perf_counter() - clock) * 1e3, (time.process_time() - processor) * 1e3


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[""], help="cases whose name has such a text")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--level", type=int, default=0, help="optimization_level")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    print(f"{'':46} {'eager':>17} {'vulkan':>17} {'ratio':>7} {'processor':>15} {'ratio':>7}")
    for name, (function, given) in cases().items():
        if not any(text in name for text in args.only):
            continue
        program = tv.compile(Of(function), given, optimization_level=args.level, min_block_size=1,
                             require_full_compilation=True, pass_through_build_failures=True)
        program(*given)
        eager, vulkan = [], []
        for _ in range(args.rounds):
            vulkan.append(once(program, given))
            eager.append(once(function, given))
        (e, e_cpu), (v, v_cpu) = zip(*eager, strict=True), zip(*vulkan, strict=True)
        print(f"{name:46} {min(e):8.3f} {statistics.median(e):8.3f} {min(v):8.3f} "
              f"{statistics.median(v):8.3f} {min(v) / min(e):7.2f} {min(e_cpu):7.3f} "
              f"{min(v_cpu):7.3f} {min(v_cpu) / min(e_cpu):7.2f}", flush=True)


if __name__ == "__main__":
    main()
