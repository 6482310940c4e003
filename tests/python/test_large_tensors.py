"""Tensors of more than 2³¹ bytes, where the machine holds them; 2³¹ elements are refused."""

import json
import os

import pytest
import torch

import torch_vulkan as tv

COUNT = 2**29 + 5  # float32: more than 2³¹ bytes
OPTIONS = {"min_block_size": 1, "optimization_level": 0}


def _room() -> bool:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    memory = json.loads(tv.devices()[0].profile())["memory_bytes"]
    return free > 12 * 2**30 and memory > 12 * 2**30


needs_room = pytest.mark.skipif("not _room()", reason="less than 12 GiB of memory are free")


@needs_room
@pytest.mark.slow
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


def test_2_31_elements_are_refused():
    """Nothing is computed: a dry run of a tensor that no memory holds."""
    with torch.device("meta"):
        x = torch.empty(2**31, dtype=torch.int8)
    report = tv.dry_run(lambda x: x + 1, (x,))
    assert "engines take fewer than 2^31" in str(report)
