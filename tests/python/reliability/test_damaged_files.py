"""Flipped bits in each kind of file that is written: the results are right, or an error says that
the file is damaged. Never wrong numbers, never a crash.
(Timings: tests/cpp/csrc/tuner/test_timing_cache.cpp.)"""

import pytest

from aot_helpers import python
from marks import slow_but

FLIPS = """
import json, os, random, sys, warnings
from pathlib import Path
import torch, torch_vulkan as tv
from torch import nn

folder, seed, most, kinds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3)).eval().requires_grad_(False)
x = torch.randn(4, 8)
want = model(x)
cache = folder / "cache"
warnings.simplefilter("ignore")
def compiled():
    torch._dynamo.reset()
    return tv.compile(model, [x], min_block_size=1, engine_cache_dir=cache)
program = compiled()

def prepared(kind):
    # A file of a kind, and what uses it.
    path = folder / f"net.{kind}"
    if kind == "cache":
        entry = next(e for e in tv.cache.entries(cache) if e.kind == "engines")
        return Path(entry.path), lambda: compiled()(x)
    if kind == "vke":
        (engine,) = tv.engines(program)
        held = {tuple(p.shape): p for p in model.parameters()}
        engine.set_weights([held[tuple(w["shape"])] for w in engine.info()["weights"]])
        engine.save(path)
        return path, lambda: next(iter(tv.Engine.load(path).run([x]).values()))
    if kind == "script":
        tv.save(tv.compile(torch.jit.trace(model, x), [x], min_block_size=1), path)
    else:
        tv.save(program, path, output_format="torchscript" if kind == "pt" else None)
    return path, lambda: tv.load(path)(x)

SAYS = ("copy it again", "altered", "format version", "not a .vke file", "save the program again")
for kind in kinds:
    path, run = prepared(kind)
    torch.testing.assert_close(run(), want)
    good = path.read_bytes()
    choose = random.Random(seed)
    tail = min(len(good), 4096)  # directories of archives, digests
    flips = most if kind in ("pt2", "pt", "script", "vke") else most // 10
    spots = [choose.randrange(len(good)) for _ in range(flips * 3 // 4)] + [
        len(good) - 1 - choose.randrange(tail) for _ in range(flips - flips * 3 // 4)]
    refused = 0
    for at in spots:
        bit = 1 << choose.randrange(8)
        path.write_bytes(good[:at] + bytes([good[at] ^ bit]) + good[at + 1:])
        try:
            got = run()
        except ValueError as error:
            assert any(text in str(error) for text in SAYS), (kind, at, bit, str(error))
            refused += 1
            continue
        except Exception as error:
            raise AssertionError((kind, at, bit)) from error
        assert torch.allclose(got, want, atol=1e-5), (kind, at, bit, "wrong numbers")
    print(kind, "refused", refused, "of", len(spots))
"""


@pytest.mark.parametrize("seed", slow_but([1], [1, 2, 3, 4]))
def test_flipped_bits(seed, tmp_path):
    kinds = ["pt2", "pt", "script", "vke", "cache"]
    printed = python(FLIPS, tmp_path, seed, 100, *kinds)
    print(printed)  # pytest -s
    refused = {line.split()[0]: int(line.split()[2]) for line in printed.splitlines()
               if " refused " in line}
    assert refused.pop("cache") == 0, "it is built again"
    assert refused.keys() == set(kinds[:4]) and min(refused.values()) >= 99
