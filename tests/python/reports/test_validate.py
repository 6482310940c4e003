"""tv.validate: errors, their places, agreement of the first k, and what is refused."""

import json
import math

import pytest
import torch

import torch_vulkan as tv


def shifted(by):
    """The identity, with the element [0, 1] of every third call off by `by`."""
    calls = []

    def function(x):
        calls.append(x)
        y = x.clone()
        if len(calls) % 3 == 0:
            y[0, 1] += by
        return y

    return function


def batches(count=6, shape=(2, 7)):
    torch.manual_seed(0)
    return [torch.randn(shape) for _ in range(count)]


def test_a_compiled_module():
    model = torch.nn.Sequential(torch.nn.Linear(7, 11), torch.nn.ReLU(), torch.nn.Linear(11, 13))
    program = tv.compile(model.eval(), inputs=[torch.zeros(2, 7)], optimization_level=0)
    found = tv.validate(model, program, batches())
    assert found.passed and found.count == 6
    (entry,) = found.outputs.values()
    assert entry["elements"] == 6 * 2 * 13 and entry["outside"] == 0
    assert entry["top_1"]["worst"] == entry["top_5"]["worst"] == 1
    assert 0 <= entry["max_abs_error"]["worst"] < 1e-5 < 1 - 1e-5 < entry["cosine"]["worst"] <= 1


def test_the_worst_inputs_are_named():
    data = batches()
    found = tv.validate(lambda x: x, shifted(0.5), data, rtol=0, atol=0.25)
    assert not found.passed
    assert [w["input"] for w in found.worst] == [2, 5]
    worst = found.worst[0]
    assert worst["index"] == [0, 1] and worst["error"] == pytest.approx(2, rel=1e-5)
    assert worst["want"] == pytest.approx(data[2][0, 1].item())
    assert worst["got"] == pytest.approx(data[2][0, 1].item() + 0.5)
    (entry,) = found.outputs.values()
    assert entry["outside"] == 2
    assert entry["max_abs_error"]["worst"] == pytest.approx(0.5, rel=1e-6)
    assert entry["max_abs_error"]["mean"] == pytest.approx(0.5 / 3, rel=1e-6)
    text = str(found)
    assert text.startswith("FAILED") and "2: output[0, 1]" in text


def test_agreement_of_the_first():
    want = torch.arange(24.0).reshape(2, 12)
    got = want.clone()
    got[1, 11], got[1, 10] = want[1, 10], want[1, 11]  # another first, the same five
    got[0, 0] = 100.0  # another first, four of five
    found = tv.validate(lambda x: want, lambda x: got, [torch.zeros(1)])
    (entry,) = found.outputs.values()
    assert entry["top_1"]["mean"] == 0 and entry["top_5"]["mean"] == pytest.approx(0.9)


@pytest.mark.parametrize("want, got, passes", [
    ([1.0, math.nan], [1.0, math.nan], True), ([math.inf], [math.inf], True),
    ([1.0], [math.nan], False), ([math.nan], [1.0], False), ([math.inf], [1e30], False),
    ([math.inf], [-math.inf], False), ([0.0], [0.0], True), ([1], [1], True), ([1], [2], False),
    ([True], [False], False), ([1 + 2j], [1 + 2j], True), ([1 + 2j], [2j], False)])
def test_numbers_that_are_none_and_exact_types(want, got, passes):
    found = tv.validate(lambda x: torch.tensor(want), lambda x: torch.tensor(got), [0])
    assert found.passed is passes
    data = json.loads(found.to_json())
    assert data["passed"] is passes and len(data["worst"]) == (not passes)


def test_structures_keywords_and_own_metrics(tmp_path):
    def model(a, b):
        a += 1  # the other function sees what was given
        return {"sum": a + b, "parts": [a, None]}

    data = [{"a": torch.ones(3), "b": torch.zeros(3)}, (torch.ones(3), torch.ones(3))]
    found = tv.validate(model, model, data, metrics={"bias": lambda w, g: (g - w).mean()})
    assert found.passed and {*found.outputs} == {"output['sum']", "output['parts'][0]"}
    assert found.outputs["output['sum']"]["bias"] == {"mean": 0.0, "worst": 0.0}
    path = tmp_path / "report.json"
    assert json.loads(found.to_json(path)) == json.loads(path.read_text())


def test_dicts_are_compared_by_name():
    x = [torch.arange(3.0)]
    found = tv.validate(lambda x: {"b": x, "a": x + 1}, lambda x: {"a": x + 1, "b": x}, x)
    assert found.passed and [*found.outputs] == ["output['b']", "output['a']"]
    with pytest.raises(ValueError, match=r"the program gives .*'c'.*, the model .*'b'"):
        tv.validate(lambda x: {"b": x}, lambda x: {"c": x}, x)
    with pytest.raises(ValueError, match="the program gives"):
        tv.validate(lambda x: {"a": x}, lambda x: [x], x)


@pytest.mark.parametrize("value, shown", [
    (torch.ones(2), r"a tensor of shape \[2\]"), ("x", "'x'"), ("1", "'1'"), ([1], r"\[1\]"),
    (1j, "1j")])
def test_metrics_that_give_no_number(value, shown):
    with pytest.raises(ValueError, match=f"input 0: output: metric 'own': got {shown}, want a num"):
        tv.validate(abs, abs, [torch.ones(2)], metrics={"own": lambda w, g: value})


def test_empty_results():
    found = tv.validate(lambda x: x, lambda x: x, [torch.zeros(0, 3)])
    assert found.passed and "output: empty, so nothing was compared" in str(found)


def test_numbers_are_shown_as_they_are():
    """Complex ones, integers that no float64 holds, tolerances of NumPy's."""
    numpy = pytest.importorskip("numpy")
    turned = tv.validate(torch.conj, lambda x: x, [torch.tensor([1 + 1j])],
                         atol=numpy.float32(1e-3))
    assert "got 1+1j, want 1-1j" in str(turned) and '"want": "(1-1j)"' in turned.to_json()
    big = tv.validate(lambda x: x, lambda x: x + 1, [torch.tensor([2**60])])
    assert f"got {2**60 + 1}, want {2**60}" in str(big)
    sparse = tv.validate(torch.Tensor.to_sparse, torch.Tensor.to_sparse, [torch.eye(3)])
    assert sparse.passed and sparse.outputs["output"]["elements"] == 9


def test_a_model_in_training_mode():
    model = torch.nn.Dropout()
    with pytest.warns(UserWarning, match=r"training mode.*model\.eval\(\)"):
        assert not tv.validate(model, model, [torch.ones(100)]).passed


@pytest.mark.parametrize("call, message", [
    (lambda f: tv.validate(f, f, []), "no inputs"),
    (lambda f: tv.validate(f, f, [torch.ones(1)], metrics=["cosin"]), "'cosin'"),
    (lambda f: tv.validate(f, f, [torch.ones(1)], metrics={"own": 1}), "'own'"),
    (lambda f: tv.validate(f, f, [torch.ones(1)], metrics={"outside": max}), "'outside', want a"),
    (lambda f: tv.validate(f, f, [torch.ones(1)], metrics={"elements": max}), "are counts"),
    (lambda f: tv.validate(f, f, [torch.ones(1)], metrics={1: max}), "the name 1"),
    (lambda f: tv.validate(f, f, [torch.ones(1)], rtol=-1), "rtol"),
    (lambda f: tv.validate(f, lambda x: x[None], [torch.ones(2)]), r"\[1, 2\], want .*\[2\]"),
    (lambda f: tv.validate(f, lambda x: x.double(), [torch.ones(2)]), "float64"),
    (lambda f: tv.validate(f, lambda x: (x, x), [torch.ones(2)]), "the program gives"),
    (lambda f: tv.validate(lambda x: None, lambda x: None, [torch.ones(2)]), "gives a result"),
    (lambda f: tv.validate(f, f, torch.ones(2)), r"data: got one Tensor, want .*\[data\]"),
    (lambda f: tv.validate(f, f, {"x": torch.ones(2)}), "data: got one dict"),
    (lambda f: tv.validate(lambda x: {"a": "b"}, f, [torch.ones(2)]), "output.'a'.: got str"),
])
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(lambda x: x)


@pytest.mark.parametrize("want, got", [(math.inf, 1.0), (math.nan, 1.0), (1.0, math.inf)])
def test_one_that_is_not_finite_is_infinitely_wrong(want, got):
    from torch_vulkan._accuracy.validation import _FUNCTIONS

    pair = torch.tensor([want, 1.0]).double(), torch.tensor([got, 1.0]).double()
    assert _FUNCTIONS["max_rel_error"](*pair) == math.inf == _FUNCTIONS["max_abs_error"](*pair)


def test_pairs_with_a_label():
    """As a loader of a data set gives them."""
    model = torch.nn.Linear(3, 2)
    pairs = [(torch.ones(4, 3), torch.zeros(4, dtype=torch.long))]
    with pytest.raises(ValueError, match="input 0: got 2 values.*x for x, label in loader"):
        tv.validate(model, model, pairs)
    assert tv.validate(model, model, (x for x, label in pairs)).passed
    assert tv.validate(torch.add, torch.add, [(torch.ones(2), torch.ones(2))]).passed


def test_a_tensor_and_a_list_of_one():
    """As sessions give what a module gives by itself."""
    data = [torch.ones(2)]
    for other in (lambda x: [x.exp()], lambda x: {"y": x.exp()}):
        assert [*tv.validate(torch.exp, other, data).outputs] == ["output"]
    with pytest.raises(ValueError, match="the program gives"):
        tv.validate(torch.exp, lambda x: [x, x], data)
