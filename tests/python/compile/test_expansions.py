"""What a node becomes is asked before it goes into an engine: no engine fails to be built."""

import pytest
import torch

from helpers import check, engines

COUNT = 2**16
PLACES = torch.arange(COUNT)


def written(x):
    y = x // 3
    x.as_strided(x.shape, x.stride()).copy_(y)
    x.as_strided((30_000,), (2,), 1).copy_(y[:30_000] * 2)
    return y.neg_()


CASES = {
    "part of all elements": (written, PLACES, []),
    "nonzero_static": (lambda x: torch.nonzero_static(x, size=70_000) + 1, PLACES % 3, []),
    "put": (lambda x: x.put(PLACES, x * 2) + 1, PLACES, ["aten::put"]),
    "index_put": (lambda x: x.index_put_((PLACES,), x * 2), PLACES, ["aten::index_put"]),
    "embedding_renorm": (lambda x: torch.embedding_renorm_(x * 2, PLACES, 1.0, 2.0),
                         torch.randn(COUNT, 2), ["aten::embedding_renorm"]),
}


@pytest.mark.parametrize("name", CASES)
def test_of_many_indices(name):
    """A deterministic scatter compares each index with each; of so many it stays native."""
    function, value, native = CASES[name]
    (record,) = check(function, value, min_block_size=1)
    assert [node.op for node in record.native if node.op != "aten::arange"] == native
    assert engines([record]) > 0
