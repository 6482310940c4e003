"""Tensors of more than 2³¹ bytes, where the machine holds them; 2³¹ elements are refused."""

import json
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import torch_vulkan as tv

COUNT = 2**29 + 5  # float32: more than 2³¹ bytes
OPTIONS = {"min_block_size": 1, "optimization_level": 0}


def _number(file: str) -> int | None:
    path = Path("/sys/fs/cgroup") / file
    text = path.read_text().strip() if path.exists() else ""
    return int(text) if text.isdigit() else None


def _free() -> int:
    """Bytes that the machine has free, within the container's limit."""
    free = int(re.search(r"MemAvailable: +(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024
    for limit, used in (("memory.max", "memory.current"),
                        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        if (most := _number(limit)) is not None:
            free = min(free, most - (_number(used) or 0))
    return free


def _room(gib: int) -> bool:
    memory = json.loads(tv.devices()[0].profile())["memory_bytes"]
    return min(_free(), memory) > gib * 2**30


def needs(gib: int):
    """A test that takes up to that much memory, which nothing else of the run takes meanwhile."""
    def marked(test):
        test = pytest.mark.skipif(f"not _room({gib})",
                                  reason=f"less than {gib} GiB of memory are free")(test)
        return pytest.mark.alone(pytest.mark.slow(test))
    return marked


@needs(12)
def test_more_than_2_31_bytes(device):
    x = torch.ones(COUNT)
    x[0], x[-1] = 5.0, 3.0
    places = torch.tensor([0, 7, COUNT - 1])
    compiled = torch.compile(
        lambda x, i: (x * 2 - 1, x.sum(), x.index_select(0, i), x[-3:] + x[:3], x[-7:].argmax(),
                      x.amax(), x[:-5].view(2**15, 2**14) @ x[:2**14]),
        backend="vulkan", fullgraph=True, options={**OPTIONS, "require_full_compilation": True})
    y, total, some, ends, place, most, products = compiled(x, places)
    assert y[0] == 9 and y[-1] == 5 and bool((y[1:-1] == 1).all())
    assert abs(total.item() - (COUNT + 6)) <= 1e-6 * COUNT
    assert some.tolist() == [5, 1, 3] and ends.tolist() == [6, 2, 4]
    assert place == 6 and most == 5
    assert products[0] == 2**14 + 24 and bool((products[1:] == 2**14 + 4).all())


ROWS, IMAGES, SHORT = (131075, 4099), (4100, 8, 128, 128), (16777300, 33)
ENDS = 5  # rows at either end that hold numbers other than 0 and are compared
FIXED = torch.Generator().manual_seed(0)
WEIGHT, KERNEL = torch.randn(4099, 3, generator=FIXED), torch.randn(8, 64, 3, 3, generator=FIXED)
VECTOR, CHANNELS = torch.randn(4099, generator=FIXED), torch.rand(8, generator=FIXED) + 0.5
# Each row of a result is made of the same row of x.
FAMILIES = {
    "softmax": (ROWS, lambda x: x.softmax(-1)),
    "layer_norm": (ROWS, lambda x: F.layer_norm(x, (4099,), VECTOR)),
    "cumsum": (ROWS, lambda x: x.cumsum(-1)),
    "arg_reduce": (ROWS, lambda x: x.argmax(-1)),
    "linear": (ROWS, lambda x: x @ WEIGHT),
    "broadcast": (ROWS, lambda x: torch.where(x > VECTOR, x * VECTOR, x - 1)),
    "flip": (ROWS, lambda x: x.flip(-1)),
    "cat": (ROWS, lambda x: torch.cat((x[:, 7:], x[:, :7]), -1)),
    "gather": (ROWS, lambda x: x.gather(
        1, torch.arange(4098, -1, -1).expand(ROWS[0], -1)[:len(x)])),
    "sort": (SHORT, lambda x: x.sort(-1)[0]),
    "convolution": ((515, 64, 128, 128), lambda x: F.conv2d(x, KERNEL, padding=1)),
    "pointwise convolution": (IMAGES, lambda x: F.conv2d(x, KERNEL[:, :8, :1, :1])),
    "depthwise": (IMAGES, lambda x: F.conv2d(x, KERNEL[:, :1], padding=1, groups=8)),
    "max_pool": (IMAGES, lambda x: F.max_pool2d(x, 3, 2, 1)),
    "avg_pool": (IMAGES, lambda x: F.avg_pool2d(x, 3, 1, 1)),
    "batch_norm": (IMAGES, lambda x: F.batch_norm(x, CHANNELS, CHANNELS, CHANNELS, CHANNELS)),
    "upsample": ((1030, 8, 128, 128), lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "attention": ((524300, 1, 16, 64), lambda x: F.scaled_dot_product_attention(x, x, x)),
    "channels last": (IMAGES, lambda x: x.to(memory_format=torch.channels_last) * 2),
}


@needs(18)
@pytest.mark.parametrize("family", FAMILIES)
def test_families(device, family):
    """An operator of a tensor that passes 2³¹ bytes, or of one that makes such a tensor."""
    shape, function = FAMILIES[family]
    x = torch.zeros(shape)
    x[:ENDS] = torch.randn(x[:ENDS].shape, generator=FIXED)
    x[-ENDS:] = torch.randn(x[:ENDS].shape, generator=FIXED)
    compiled = torch.compile(function, backend="vulkan", fullgraph=True,
                             options={**OPTIONS, "require_full_compilation": True})
    got = compiled(x)
    assert max(x.numel(), got.numel()) * 4 > 2**31
    for rows in (slice(0, ENDS), slice(len(x) // 2, len(x) // 2 + 2), slice(-ENDS, None)):
        torch.testing.assert_close(got[rows], function(x[rows]), rtol=1e-4, atol=1e-4)


@needs(12)
def test_columns(device):
    """Neighbours of a result that lie far apart in x."""
    x = torch.zeros(ROWS)
    x[-ENDS:] = torch.randn(ENDS, ROWS[1], generator=FIXED)
    compiled = torch.compile(lambda x: x.t() * 2, backend="vulkan", fullgraph=True,
                             options={**OPTIONS, "require_full_compilation": True})
    got = compiled(x)
    assert got[:, -ENDS:].equal(x[-ENDS:].t() * 2) and not got[:, :-ENDS].any()


def test_2_31_elements_are_refused():
    """Nothing is computed: a dry run of a tensor that no memory holds."""
    with torch.device("meta"):
        x = torch.empty(2**31, dtype=torch.int8)
    report = tv.dry_run(lambda x: x + 1, (x,))
    assert "engines take fewer than 2^31" in str(report)
