"""Samples of torch's own op_db: none wrong, none an error of ours, and wholly in engines but for
those that outside_engines.txt lists (opinfo_listed.py).

Each entry is planned at float32; of other types and of gradients a share, the next for each
commit. A share runs, too: its size is bounded by the time that engines take to build, about 0.2 s a
sample on one core. `tests/opinfo/run.py` runs all of them (`make test-all`).
"""

import math

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's op_db needs it")

import opinfo_run
from opinfo_compare import _as_good, _at_poles
from opinfo_forms import FORMS, transformed, unnamed
from opinfo_listed import VERSION, difference, listed_version, of_the_list
from opinfo_results import Results, by_entry
from opinfo_run import Outcome, plan, run
from opinfo_samples import Pair, by_hash, chosen, pairs, samples
from torch.testing._internal.opinfo.core import SampleInput

from torch_vulkan._base.settings import Settings

from seeds import TURN, share_of

SAMPLES, GRADIENTS, OF_A_FORM = 175, 49, 18  # pairs of a run
PARTS = 7
SHARES = 16  # of what is planned beside float32

of_the_version = pytest.mark.skipif(
    listed_version() != VERSION,
    reason=f"this is torch {VERSION}; outside_engines.txt is of {listed_version()}")


def _outcomes(function, of: list[Pair]):
    """(pair and number, outcome, how that differs from the list) of a sample of each pair."""
    for pair in of:
        inputs = samples(pair)
        for number in chosen(pair, len(inputs), 1):
            outcome = function(pair, inputs[number])
            yield f"{pair.name}/{number}", outcome, difference(pair, number, len(inputs), outcome)


def _share(of: list[Pair], most: int, turn: int = TURN) -> list[Pair]:
    """At most that many of the pairs, in an order of their own; turns in a row take each pair."""
    return share_of(by_hash(of, len(of)), -(-len(of) // most), turn)


def _check(of: list[Pair]):
    bad, engines = [], 0
    for name, outcome, unlisted in _outcomes(run, of):
        engines += outcome.kind == "engine"
        if outcome.kind in ("wrong", "crash"):
            bad.append(f"{outcome.kind}: {name}: {outcome.reason}")
        elif unlisted:
            bad.append(unlisted)
    assert not bad, "\n".join(bad)
    assert engines, "not one sample ran in an engine"


@pytest.mark.parametrize("part", range(PARTS))
def test_samples(device, part):
    _check(_share(pairs(), SAMPLES)[part::PARTS])


@pytest.mark.parametrize("part", range(PARTS))
def test_gradients(device, part):
    _check(_share(pairs(gradient=True), GRADIENTS)[part::PARTS])


def test_every_pair_has_its_turn():
    for every, most in ((pairs(), SAMPLES), (pairs(gradient=True), GRADIENTS),
                        (pairs((torch.float32,)), OF_A_FORM)):
        shares = [_share(every, most, turn) for turn in range(1000, 1000 - (-len(every) // most))]
        assert all(0 < len(share) <= most for share in shares)
        assert sorted(pair.name for share in shares for pair in share) == sorted(
            pair.name for pair in every)


def _expect_planned(of: list[Pair]):
    different = [unlisted for _, _, unlisted in _outcomes(plan, of) if unlisted]
    assert not different, "\n".join([
        *different, "Where that is meant: tests/opinfo/opinfo_listed.py --write --entries REGEX"])


@of_the_version
def test_every_entry_is_planned_as_listed():
    _expect_planned(pairs((torch.float32,)))


@of_the_version
def test_other_types_and_gradients_are_planned_as_listed():
    others = [pair for pair in (*pairs(), *pairs(gradient=True))
              if pair.gradient or pair.dtype != torch.float32]
    _expect_planned(share_of(by_hash(others, len(others)), SHARES))


@of_the_version
def test_a_refusal_that_is_not_listed_is_found(monkeypatch):
    monkeypatch.setattr(opinfo_run, "_settings", lambda: Settings.from_options(
        {**opinfo_run.OPTIONS, "torch_executed_ops": {"aten::cumsum"}}))
    with pytest.raises(AssertionError, match="cumsum/float32/.*: native, listed as engine"):
        _expect_planned([Pair("cumsum", torch.float32)])


@of_the_version
def test_the_list_is_exact_in_both_directions():
    """What is lost differs from the list, and what is gained too."""
    whole, native = Pair("add", torch.float32), Pair("linalg_eigh", torch.float32)
    for pair, kind, other in ((whole, "engine", "native"), (native, "native", "engine")):
        count = len(samples(pair))
        (number,) = chosen(pair, count, 1)
        assert difference(pair, number, count, Outcome(kind)) == ""
        assert difference(pair, number, count, Outcome(other)) != ""


@of_the_version
def test_what_a_cpu_driver_would_end_early_is_no_difference(device):
    """The list is planned for a GPU, whose loops may have as many rounds as they want."""
    pair = Pair("grid_sampler_3d", torch.float32, gradient=True)
    inputs = samples(pair)
    (number,) = of_the_list(pair, len(inputs))
    outcome = run(pair, inputs[number])
    if outcome.kind == "native":
        assert "loop iterations" in outcome.reason
    assert difference(pair, number, len(inputs), outcome) == ""


@pytest.mark.parametrize("form", [form for form in FORMS if form != "plain"])
def test_forms(device, form):
    """Other strides, offsets and values (opinfo_forms.py), of some entries."""
    bad = []
    for pair in _share(pairs((torch.float32,)), OF_A_FORM):
        inputs = samples(pair)
        for number in chosen(pair, len(inputs), 1):
            outcome = run(pair, inputs[number], form)
            if outcome.kind in ("wrong", "crash"):
                bad.append(f"{outcome.kind}: {pair.name}/{number}: {outcome.reason}")
    assert not bad, "\n".join(bad)


def test_resizing_to_its_own_size_keeps_the_order_of_elements(device):
    """torch decomposes resize_as as if every tensor were contiguous."""
    pair = Pair("resize_as_", torch.float32)
    outcome = run(pair, samples(pair)[0], "transposed")
    assert outcome.kind == "native", outcome.reason


def test_transforms_of_infinities(device):
    """Complex results, and numbers of eager's beside others that are none."""
    for entry, number in (("fft_fft2", 0), ("fft_irfft", 1), ("stft", 1)):
        pair = Pair(entry, torch.float32)
        outcome = run(pair, samples(pair)[number], "infinite")
        assert outcome.kind == "engine", outcome.reason


def test_what_counts_as_right():
    """As far from float64 as eager's result at most twice, and near to it where eager is not."""
    def good(actual, eager, exact):
        return _as_good(torch.tensor([actual]), torch.tensor([eager]),
                        torch.tensor([exact], dtype=torch.float64), 1.3e-6, 1e-5)
    assert good(0.0, 2.4e-5, exact=6e-14)
    assert not good(5e-4, 3e-4, exact=6e-14)
    assert good(72.7494, 72.7495, exact=72.7497)
    assert not good(72.7491, 72.7495, exact=72.7497)
    assert good(5.002, 5.001, exact=5.0)
    assert not good(5.02, 5.5, exact=5.0)


def test_infinity_is_right_at_poles_of_trigamma():
    """Where eager's result is finite there; nowhere else, and no other value."""
    x = torch.tensor([-8, -8, -8, -8, 6, 0])
    eager = torch.tensor([2e13, 2e13, 2e13, math.nan, 0.2, math.inf])
    ours = torch.tensor([math.inf, 1e13, -math.inf, math.inf, math.inf, math.inf])
    wanted = [math.inf, *eager[1:].tolist()]
    found = _at_poles(x, ours, eager)
    torch.testing.assert_close(found, torch.tensor(wanted), rtol=0, atol=0, equal_nan=True)
    fraction = _at_poles(torch.tensor([-1.5]), ours[:1], eager[:1])
    assert fraction.item() == eager[0].item()
    truths = torch.tensor([False, True])  # what polygamma takes, too
    assert _at_poles(truths, ours[:2], eager[:2]).equal(eager[:2])


def test_what_stands_beside_infinities_of_a_transform():
    """May be no number along the dimensions that are transformed, and in no other batch."""
    assert transformed("fft_fft", SampleInput(torch.ones(4, 8))) == [-1]
    eager = torch.zeros(4, 8)
    eager[0, 1:] = math.nan

    def accepted(place, value, lines):
        ours = eager.clone()
        ours[place] = value
        (a,), (e,) = unnamed("infinite", "fft_fft", [ours], [eager], lines)
        return torch.equal(a.isnan(), e.isnan())
    assert accepted((0, 0), math.inf, [-1])
    assert not accepted((0, 3), 0.0, [-1])
    assert not accepted((1,), math.inf, [-1])
    assert not accepted((2, 5), math.nan, [-1])
    assert accepted((2, 5), math.nan, [0])
    assert not accepted((0, 0), math.inf, [])


def test_which_dimensions_a_transform_has():
    x = torch.ones(5, 6, 7)

    def of(entry, given=x, **kwargs):
        return transformed(entry, SampleInput(given, kwargs=kwargs))
    assert of("fft_irfft", dim=1) == [1] and of("fft_hfft", n=9) == [-1]
    assert of("fft_ifft2") == [-2, -1] and of("fft_rfft2", dim=(0, -1)) == [0, -1]
    assert of("fft_fftn") == [-3, -2, -1] and of("fft_fftn", s=(8,)) == [-1]
    assert of("fft_fftshift", dim=0) == [] and of("nn_functional_instance_norm") == []
    signals = torch.ones(3, 100)
    assert of("stft", signals, return_complex=True) == [1]
    assert of("stft", signals, return_complex=False) == [1, 3]


def test_results_are_read_back(tmp_path):
    """A sample that began and did not end is a crash; the last word on a sample counts."""
    first, second = Results(tmp_path, "a"), Results(tmp_path, "b")
    for sample in ("add/float32/0", "add/float32/1", "add/int64/0", "mul/float32/grad/0"):
        first.begin(sample)
        if sample != "add/float32/1":
            first.end(sample, {"kind": "engine"})
    second.begin("mul/float32/0")
    second.end("mul/float32/0", {"kind": "native", "reason": "aten::mul: no"})
    (tmp_path / "c.jsonl").write_text('{"sample": "cut')
    found = first.read()
    assert [found[f"add/float32/{i}"]["kind"] for i in (0, 1)] == ["engine", "crash"]
    entries = by_entry(found)
    assert sorted(entries) == ["add", "mul"] and len(entries["add"]) == 2
    assert entries["mul"] == [{"kind": "native", "reason": "aten::mul: no"}]
