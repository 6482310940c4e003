"""The largest magnitude that calibration chooses: each method beside a plain rendering of how the
literature defines it."""

import math

import pytest
import torch

import torch_vulkan  # noqa: F401
from torch_vulkan._native import C

from marks import turns


class Histogram:
    """C.Histogram of tensors."""

    def __init__(self):
        self._made = C.Histogram.empty()
        self.largest = self._made.largest

    def add(self, tensor):
        elements = tensor.float().contiguous()
        self._made.add(elements.data_ptr(), elements.numel())

    @property
    def counts(self):
        return torch.tensor(self._made.counts, dtype=torch.float64)

    @property
    def width(self):
        return self._made.width


def seen(*tensors):
    histogram = Histogram()
    for tensor in tensors:
        histogram.add(tensor)
    return histogram


def data(kind, seed=0):
    torch.manual_seed(seed)
    return {"normal": lambda: torch.randn(20000), "relu": lambda: torch.randn(20000).relu(),
            "outliers": lambda: torch.cat([torch.randn(20000), torch.tensor([60.0, -80.0])]),
            "uniform": lambda: torch.rand(20000) * 3 - 1,
            "sparse": lambda: torch.randn(300)}[kind]()


KINDS = ["normal", "relu", "outliers", "uniform", "sparse"]


def entropy_by_the_book(counts):
    """S7310, p. 38: quantise the first i bins to 128 levels, spread each level over its bins that
    are not empty, compare."""
    bins = counts.tolist()
    bins[0] = bins[1]
    best = (math.inf, 0)
    for i in range(128, len(bins) + 1):
        reference = bins[:i]
        reference[-1] += sum(bins[i:])
        level_of = [j * 128 // i for j in range(i)]
        mass, filled = [0.0] * 128, [0] * 128
        for j in range(i):
            mass[level_of[j]] += bins[j]
            filled[level_of[j]] += bins[j] > 0
        q = [mass[k] / filled[k] if bins[j] > 0 else 0.0 for j, k in enumerate(level_of)]
        total, spread = sum(reference), sum(q)
        divergence = 0.0
        for p_j, q_j in zip(reference, q, strict=True):
            if p_j > 0:
                divergence += math.inf if q_j == 0 else (
                    p_j / total * math.log(p_j / total / (q_j / spread)))
        best = min(best, (divergence, -i))
    return -best[1]


@turns(3)
@pytest.mark.parametrize("kind", KINDS)
def test_entropy(kind):
    histogram = seen(data(kind))
    want = entropy_by_the_book(histogram.counts) * histogram.width
    assert histogram.largest("entropy", 0) == pytest.approx(want, abs=histogram.width)


@pytest.mark.parametrize("kind", KINDS)
def test_mse(kind):
    x = data(kind)
    histogram = seen(x)
    middles = [(j + 0.5) * histogram.width for j in range(len(histogram.counts))]
    values, counts = torch.tensor(middles, dtype=torch.float64), histogram.counts
    errors = []
    for amax in middles[128:]:
        scale = amax / 127
        held = (values / scale).round().clamp(-127, 127) * scale
        errors.append(((held - values) ** 2 * counts).sum().item())
    want = middles[128 + errors.index(min(errors))]
    assert histogram.largest("mse", 0) == pytest.approx(want, abs=histogram.width)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("percentile", [50, 99, 99.99, 100])
def test_percentile(kind, percentile):
    x = data(kind)
    histogram = seen(x)
    sizes = x.abs().sort().values.tolist()
    at = math.ceil(percentile / 100 * len(sizes))  # it, or the next where shares are rounded
    got = histogram.largest("percentile", percentile)
    most = sizes[min(at, len(sizes) - 1)] + histogram.width
    assert sizes[at - 1] * (1 - 1e-6) <= got <= most * (1 + 1e-6)


def test_minmax_is_exact():
    x = data("outliers")
    assert seen(x, x / 3).largest("minmax", 0) == x.abs().max().item()


def test_percentiles_clip_outliers():
    assert seen(data("outliers")).largest("percentile", 99.9) < 5


def test_growing_ranges_count_everything():
    torch.manual_seed(1)
    parts = [torch.randn(1000) * scale for scale in (0.1, 1, 0.5, 30, 7)]
    histogram = seen(*parts)
    assert histogram.counts.sum() == 5000 and len(histogram.counts) <= 8 * 2048
    assert histogram.largest("minmax", 0) == torch.cat(parts).abs().max().item()
    # As if all had come at once, but for the width of bins.
    whole = seen(torch.cat(parts))
    for method in ("percentile", "mse"):
        assert histogram.largest(method, 99) == pytest.approx(
            whole.largest(method, 99), rel=0.01), method


def test_a_range_that_explodes_takes_no_more_memory():
    histogram = seen(torch.tensor([1e-6]), torch.tensor([1e6, 3.0]))
    assert len(histogram.counts) <= 8 * 2048 and histogram.counts.sum() == 3
    assert histogram.largest("minmax", 0) == 1e6


def test_zeros():
    histogram = seen(torch.zeros(10))
    assert all(histogram.largest(m, 99) == 0 for m in ("entropy", "mse", "percentile", "minmax"))
    histogram.add(torch.ones(5))
    assert histogram.counts[0] == 10 and histogram.counts.sum() == 15
    histogram.add(torch.zeros(0))
    assert histogram.counts.sum() == 15


def test_more_elements_of_a_kind_than_float32_counts():
    histogram = seen(torch.ones(1))
    histogram.add(torch.zeros((1 << 24) + 5, dtype=torch.float16))
    assert histogram.counts[0] == (1 << 24) + 5


@pytest.mark.parametrize("value, message", [(math.nan, "NaN"), (-math.inf, "infinities")])
def test_no_numbers(value, message):
    histogram = seen(torch.ones(3))
    with pytest.raises(ValueError, match=message):
        histogram.add(torch.tensor([1.0, value]))
    assert histogram.counts.sum() == 3


def observations(*tensors, by_channels=True):
    seen = C.Observations.empty(by_channels)
    for name, tensor in tensors:
        seen.add(name, tensor.data_ptr(), [*tensor.shape], 1, True)
    return seen


def made_of(seen):
    return seen.calibration("entropy", 0, 0.5, True)


def test_copies_and_texts_keep_all_that_was_seen():
    """And what is seen later is not in them."""
    torch.manual_seed(2)
    first, second = torch.randn(40, 3, 5) * 1e-3, torch.zeros(2, 4)
    triple = first * 3
    seen = observations(("a: b", first), ("é", second))
    want, copy = made_of(seen), seen.copy()
    text = seen.unfinished("digest", 7)
    model, done, read = C.read_unfinished(text)
    seen.add("a: b", triple.data_ptr(), [*triple.shape], 1, True)
    assert (model, done) == ("digest", 7) and read.names == ["a: b", "é"]
    assert made_of(copy) == want and made_of(read) == want != made_of(seen)
    read.add("a: b", triple.data_ptr(), [*triple.shape], 1, True)
    assert made_of(read) == made_of(seen)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_facts_of_channels(dim):
    torch.manual_seed(3)
    parts = [torch.randn(4, 5, 6) for _ in range(2)]
    seen = C.Observations.empty(True)
    for part in parts:
        seen.add("x", part.data_ptr(), [*part.shape], dim, True)
    _, _, alpha, largest, means, _ = seen.calibration("minmax", 0, 0.25, True)
    other = [d for d in range(3) if d != dim]
    both = torch.stack(parts)
    assert alpha == 0.25
    assert largest["x"] == both.abs().amax([0, *(d + 1 for d in other)]).tolist()
    torch.testing.assert_close(torch.tensor(means["x"]), both.mean([0, *(d + 1 for d in other)]))
    other = torch.zeros(7, 7, 7)
    with pytest.raises(ValueError, match="'x' holds 7 channels, and . before"):
        seen.add("x", other.data_ptr(), [7, 7, 7], dim, True)


@pytest.mark.parametrize("damage, message", [
    (lambda text: text[:-9], "json|unfinished"), (lambda text: "[]", "no unfinished"),
    (lambda text: text.replace('"version":4', '"version":3'), "of another version"),
    (lambda text: text.replace('"amax":', '"amin":'), "no unfinished"),
    (lambda text: text.replace('"width":', '"width":-'), "no unfinished"),
    (lambda text: text.replace('"counts":[', '"counts":[["x"],'), "no unfinished"),
    (lambda text: text.replace('"largest":[', '"largest":[1,'), "no unfinished")])
def test_damaged_texts(damage, message):
    text = observations(("x", torch.ones(2, 3))).unfinished("model", 1).replace(" ", "")
    damaged = damage(text)
    assert damaged != text
    C.read_unfinished(text)
    with pytest.raises(ValueError, match=message):
        C.read_unfinished(damaged)


def test_percentile_of_a_sparse_tensor():
    """It is not 0 where most elements are."""
    x = torch.zeros(100000)
    x[0] = 3
    histogram = seen(x)
    assert histogram.largest("percentile", 99.99) == histogram.width > 0
    assert histogram.largest("percentile", 100) == 3
