"""Calls that the plan of a divided model, or the engine of another, does not have."""

import warnings

import numpy
import onnx
import pytest
from onnx import helper
from test_onnx_fallback import BOOL, check, compiled, expected, nonzero_in_the_middle, random

import torch_vulkan as tv

from onnx_models import model, tensor, weight


def test_a_size_that_happens_to_be_one():
    """Two sizes of data that the plan takes for equal: one of them broadcasts."""
    nodes = [helper.make_node("Exp", ["x"], ["e"]),
             helper.make_node("Compress", ["e", "a"], ["p"], axis=0),
             helper.make_node("Compress", ["e", "b"], ["q"], axis=0),
             helper.make_node("Add", ["p", "q"], ["s"]), helper.make_node("Tanh", ["s"], ["y"])]
    made = model(nodes, [tensor("x", [6]), tensor("a", [6], BOOL), tensor("b", [6], BOOL)],
                 [tensor("y", None)])
    session = compiled(made)
    three, one = numpy.arange(6) < 3, numpy.arange(6) < 1
    check(session, made, {"x": random(6), "a": three, "b": three})
    feed = {"x": random(6), "a": three, "b": one}
    with pytest.warns(UserWarning, match="natively as a whole"):
        (y,) = session.run(None, feed)
    numpy.testing.assert_allclose(y, expected(made, feed)[0], rtol=1e-5)
    with pytest.raises(ValueError, match="tv.onnx"):  # and two and three do not
        session.run(None, {**feed, "b": numpy.arange(6) < 2})


def added(*sizes):
    """z = x + y: one engine, which takes the sizes for equal."""
    inputs = [tensor(name, [size]) for name, size in zip("xy", sizes, strict=True)]
    return model([helper.make_node("Add", ["x", "y"], ["z"])], inputs, [tensor("z", None)])


@pytest.mark.parametrize("n, m", [(1, 4), (4, 1), (0, 0), (1, 0)])
def test_a_call_that_one_engine_does_not_take(n, m):
    made = added("n", "m")
    session = compiled(made)
    assert session.engine and not session.native
    check(session, made, {"x": random(3), "y": random(3)})
    feed = {"x": random(n), "y": random(m)}
    with pytest.warns(UserWarning, match="a call runs natively as a whole: .*got"):
        (z,) = session.run(None, feed)
    numpy.testing.assert_allclose(z, expected(made, feed)[0], rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # which there is once
        check(session, made, feed)
    with pytest.raises(ValueError, match="got 3, want 2.*; natively: "):
        session.run(None, {"x": random(2), "y": random(3)})
    with pytest.raises(ValueError, match="got"):
        compiled(made, fallback="none").run(None, feed)


@pytest.mark.parametrize("feed, inputs", [
    ({"x": random(4), "y": random(5)}, None), ({"x": random(1), "y": random(4)}, (2, 8)),
    ({"x": random(2, 2), "y": random(4)}, None)])
def test_sizes_that_the_file_or_the_caller_does_not_permit(feed, inputs):
    """They are errors, though ONNX Runtime would compute something."""
    if inputs:
        low, high = inputs
        inputs = {"x": tv.Input(min_shape=(low,), opt_shape=(low,), max_shape=(high,))}
    session = compiled(added("n", "m" if inputs else 4), inputs=inputs)
    with pytest.raises(ValueError, match="got|rank|a size of 'y'") as caught:
        session.run(None, feed)
    assert "natively" not in str(caught.value)


def test_sizes_that_the_file_fixes_are_kept_by_one_engine():
    made = model([helper.make_node("Tanh", ["x"], ["y"])], [tensor("x", ["n", 4])],
                 [tensor("y", None)])
    session = compiled(made)
    assert session.engine
    for x in (random(2, 5), random(4), random(2, 4, 1)):
        with pytest.raises(ValueError, match="got|rank") as caught:
            session.run(None, {"x": x})
        assert "natively" not in str(caught.value)


def test_a_call_that_one_engine_does_not_take_after_a_refit(tmp_path):
    def scaled(by):
        return model([helper.make_node("Mul", ["x", "w"], ["h"]),
                      helper.make_node("Add", ["h", "y"], ["z"])],
                     [tensor("x", ["n"]), tensor("y", ["m"])], [tensor("z", None)],
                     [weight("w", numpy.float32([by]))])

    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    onnx.save(scaled(2), first)
    onnx.save(scaled(3), second)
    session = compiled(first)
    session.refit(second)
    feed = {"x": random(1), "y": random(4)}
    with pytest.warns(UserWarning, match="natively"):
        (z,) = session.run(None, feed)
    numpy.testing.assert_allclose(z, expected(scaled(3), feed)[0], rtol=1e-6)
    session = compiled(first)
    onnx.save(scaled(5), first)
    with pytest.raises(ValueError, match="first.onnx has changed since it was compiled"):
        session.run(None, feed)


def test_an_opset_of_the_future():
    made = model([helper.make_node("Exp", ["x"], ["y"])], [tensor("x", ["n"])],
                 [tensor("y", ["n"])])
    made.opset_import[0].version = 29
    for arguments in ({"fallback": "none"}, {"require_full_compilation": True}):
        with pytest.raises(tv.UnsupportedError, match="opset 29 of ai.onnx; engines take 7 to 28"):
            compiled(made, **arguments)
    try:  # whether anything runs it is ONNX Runtime's or the onnx package's to say
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session = compiled(made)
    except tv.UnsupportedError as error:
        assert "ONNX Runtime" in str(error)
    else:
        assert not session.engines and "opset 29" in session.native[0][2]


def test_ranges_of_the_caller_are_kept():
    session = compiled(nonzero_in_the_middle(), inputs={"x": tv.Input(
        min_shape=(2, 5), opt_shape=(4, 5), max_shape=(8, 5))})
    session.run(None, {"x": random(8, 5)})
    for n in (1, 9):
        with pytest.raises(ValueError, match=f"{n}, want 2 to 8"):
            session.run(None, {"x": random(n, 5)})
