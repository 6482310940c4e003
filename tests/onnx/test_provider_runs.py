"""ONNX Runtime's provider: options of a run, and the runtime's own profile."""

import json
import threading

import numpy
import onnxruntime
import provider_tests
import pytest
from onnx import helper
from provider_tests import CPU, NAME

from onnx_models import linear, model, tensor

pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")


def opened(made, **settings):
    provider_tests.register()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for name, value in settings.items():
        setattr(options, name, value)
    return onnxruntime.InferenceSession(
        made.SerializeToString(), options, enable_fallback=0,
        providers=[(NAME, {"builder_optimization_level": 0, "min_subgraph_size": 1}), CPU])


def parts():
    """Two engines, with a node of the CPU provider between them."""
    nodes = [helper.make_node("Tanh", ["x"], ["t"]),
             helper.make_node("Unique", ["t"], ["u"]),
             helper.make_node("Exp", ["u"], ["y"])]
    return model(nodes, [tensor("x", ["n"])], [tensor("y", ["m"])])


@pytest.mark.parametrize("made, x", [
    (linear()[0], numpy.ones((2, 8), "float32")), (parts(), numpy.ones(3, "float32"))])
def test_terminate(made, x):
    """A run that is to end does; the next one is whole."""
    session = opened(made)
    run = onnxruntime.RunOptions()
    run.terminate = True
    with pytest.raises(Exception, match="terminate"):
        session.run(None, {"x": x}, run)
    run.terminate = False
    want = session.run(None, {"x": x})
    numpy.testing.assert_array_equal(session.run(None, {"x": x}, run)[0], want[0])


def test_terminate_while_others_run():
    """It ends the runs with these options and no other."""
    session, x = opened(parts()), numpy.linspace(-1, 1, 999, dtype="float32")
    (want,) = session.run(None, {"x": x})
    run, ended = onnxruntime.RunOptions(), threading.Event()

    def work():
        try:
            for _ in range(100000):
                session.run(None, {"x": x}, run)
        except Exception as error:  # of the runtime's own types
            assert "terminate" in str(error)
            ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    numpy.testing.assert_array_equal(session.run(None, {"x": x})[0], want)
    run.terminate = True
    thread.join(60)
    assert ended.is_set()
    numpy.testing.assert_array_equal(session.run(None, {"x": x})[0], want)


def test_the_profile_has_each_engine(tmp_path):
    session = opened(parts(), enable_profiling=True, profile_file_prefix=str(tmp_path / "runs"))
    for _ in range(3):
        session.run(None, {"x": numpy.ones(5, "float32")})
    with open(session.end_profiling()) as file:
        events = [event for event in json.load(file) if event["cat"] == "Node"
                  and event["name"].endswith("_kernel_time")]
    of_engines = [event for event in events if event["args"]["provider"] == NAME]
    assert len({event["name"] for event in of_engines}) == 2 and len(of_engines) == 6
    assert all(event["dur"] > 0 for event in of_engines)
    assert [event["args"]["op_name"] for event in events
            if event["args"]["provider"] == CPU].count("Unique") == 3
