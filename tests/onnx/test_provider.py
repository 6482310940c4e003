"""ONNX Runtime's provider: results are those of its CPU provider, and nodes are where they should
be."""

import collections
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import onnx
import onnxruntime
import provider_tests
import pytest
from onnx import TensorProto, helper
from provider_tests import CPU, NAME, nodes_of, session

from marks import slow_but, turns
from onnx_models import linear, model, tensor, weight
from seeds import share_of

SHARES = 16
pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")
INT, BOOL = TensorProto.INT64, TensorProto.BOOL
PACKAGE = Path(provider_tests.vulkan.__file__).parent


def random(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


def check(made, feed, opened=None, **options):
    """Runs with the provider and without; gives the session."""
    opened = opened or session(made, **options)
    want = onnxruntime.InferenceSession(made.SerializeToString(), providers=[CPU]).run(None, feed)
    for a, b in zip(opened.run(None, feed), want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    return opened


def in_process(code, *arguments):
    """What a Python without torch prints."""
    script = f"""
import sys
sys.path.insert(0, {str(PACKAGE.parent)!r})
import numpy, onnxruntime
import onnxruntime_ep_vulkan as vulkan
NAME = vulkan.get_ep_name()
def register():
    onnxruntime.register_execution_provider_library(NAME, vulkan.get_library_path())
def session(path):
    return onnxruntime.InferenceSession(path, providers=[
        (NAME, dict(builder_optimization_level=0, min_subgraph_size=1)), "CPUExecutionProvider"],
        enable_fallback=0)
{code}
"""
    done = subprocess.run([sys.executable, "-c", script, *map(str, arguments)], text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- what runs where ---

def test_sizes_of_each_call():
    made, reference = linear()
    opened = session(made)
    for batch in (1, 7, 32, 7):
        x = random(batch, 8, seed=batch)
        (got,) = opened.run(None, {"x": x})
        numpy.testing.assert_allclose(got, reference(x), rtol=1e-5, atol=1e-5)
    assert [*nodes_of(opened)] == [NAME] and len(nodes_of(opened)[NAME]) == 1


@turns(2)
@pytest.mark.parametrize("name, batches", slow_but(
    [("ResNet-50", (2, 3)), ("BERT-base", (1, 5))],
    [("ResNet-50", (2, 3)), ("BERT-base", (1, 5)), ("ViT-B/16", (1, 2)), ("MobileNetV2", (1, 2))],
    rows=True))
def test_a_network_is_one_node(name, batches, tmp_path):
    pytest.importorskip("onnxscript")
    from test_exported_networks import NETWORKS, export
    from test_exported_networks import check as check_network

    path = str(tmp_path / "net.onnx")
    network, _ = export(name, 2, True, path)
    opened = session(path, {"session.disable_cpu_ep_fallback": "1"}, alone=True)
    assert [len(parts) for parts in nodes_of(opened).values()] == [1]
    for batch in batches:
        check_network(opened, path, network, NETWORKS[name].inputs(batch, True, batch))


def detector():
    """A head, NonMaxSuppression of its boxes, and a second head on those that are left."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["flat"]),
        helper.make_node("Relu", ["flat"], ["positive"]),
        helper.make_node("Reshape", ["positive", "box_shape"], ["boxes"]),
        helper.make_node("Sigmoid", ["logits"], ["scores"]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["chosen"]),
        helper.make_node("Slice", ["chosen", "two", "three", "one"], ["last"]),
        helper.make_node("Squeeze", ["last", "one"], ["index"]),
        helper.make_node("Gather", ["boxes", "index"], ["kept"], axis=1),
        helper.make_node("MatMul", ["kept", "v"], ["h"]),
        helper.make_node("Tanh", ["h"], ["y"])]
    ints = numpy.int64
    return model(
        nodes, [tensor("x", [1, 8]), tensor("logits", [1, 1, 12])], [tensor("y", [1, "n", 5])],
        [weight("w", random(8, 48)), weight("v", random(4, 5, seed=1)),
         weight("box_shape", numpy.array([1, 12, 4], ints)), weight("most", numpy.array([5], ints)),
         weight("overlap", numpy.array([0.4], numpy.float32)),
         weight("one", numpy.array([1], ints)), weight("two", numpy.array([2], ints)),
         weight("three", numpy.array([3], ints))])


def test_what_is_left_runs_on_the_cpu():
    made = detector()
    feed = {"x": random(1, 8), "logits": random(1, 1, 12, seed=3)}
    opened = check(made, feed)
    found = nodes_of(opened)
    assert "NonMaxSuppression" in sum(found[CPU], [])
    assert {"MatMul", "Tanh"} <= set(sum(found[NAME], []))
    check(made, {"x": random(1, 8, seed=5), "logits": random(1, 1, 12, seed=6)}, opened)


def test_sizes_that_several_engines_need():
    """The second engine gets its shape from numbers that the CPU provider computes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "first"], ["rows1"]),
        helper.make_node("Concat", ["rows1", "two_four"], ["split"], axis=0),
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Reshape", ["e", "split"], ["a"]),
        helper.make_node("Mul", ["a", "a"], ["b"]),
        helper.make_node("Unique", ["b"], ["u"]),
        helper.make_node("ReduceSum", ["u"], ["s"], keepdims=0),
        helper.make_node("Add", ["x", "s"], ["c"]),
        helper.make_node("Reshape", ["c", "split"], ["d"]),
        helper.make_node("Sin", ["d"], ["y"])]
    ints = numpy.int64
    made = model(nodes, [tensor("x", ["n", 8])], [tensor("y", ["n", 2, 4])],
                 [weight("zero", numpy.array(0, ints)), weight("first", numpy.array([0], ints)),
                  weight("two_four", numpy.array([2, 4], ints))])
    opened = check(made, {"x": random(3, 8)})
    assert len(nodes_of(opened)[NAME]) == 2
    check(made, {"x": random(5, 8)}, opened)


def test_sizes_that_may_be_one():
    """Nothing says before a run whether they are equal: the CPU provider broadcasts."""
    made = model([helper.make_node("Relu", ["a"], ["r"]),
                  helper.make_node("Add", ["r", "b"], ["c"]),
                  helper.make_node("Exp", ["c"], ["y"])],
                 [tensor("a", ["n", 4]), tensor("b", ["m", 4])], [tensor("y", None)])
    opened = check(made, {"a": random(3, 4), "b": random(3, 4)})
    assert nodes_of(opened)[CPU] == [["Add"]]
    check(made, {"a": random(1, 4), "b": random(2, 4)}, opened)
    check(made, {"a": random(5, 4), "b": random(1, 4)}, opened)


def test_sizes_of_an_einsum_that_may_be_one():
    made = model([helper.make_node("Relu", ["a"], ["r"]),
                  helper.make_node("Einsum", ["r", "b"], ["c"], equation="ij,ij->ij"),
                  helper.make_node("Exp", ["c"], ["y"])],
                 [tensor("a", ["n", 3]), tensor("b", ["m", 3])], [tensor("y", None)])
    opened = check(made, {"a": random(2, 3), "b": random(2, 3)})
    assert nodes_of(opened)[CPU] == [["Einsum"]]
    check(made, {"a": random(1, 3), "b": random(4, 3)}, opened)


def test_many_sizes_that_must_be_equal():
    """More than an import merges: their node is left out, and not the model."""
    names = [f"x{i}" for i in range(70)]
    made = model([helper.make_node("Concat", names, ["c"], axis=1),
                  helper.make_node("MatMul", ["c", "w"], ["h"]),
                  helper.make_node("Exp", ["h"], ["y"])],
                 [tensor(name, [None, 2]) for name in names], [tensor("y", None)],
                 [weight("w", random(140, 3) / 10)])
    opened = check(made, {name: random(3, 2, seed=i) for i, name in enumerate(names)})
    assert "MatMul" in sum(nodes_of(opened)[NAME], [])


def test_an_old_opset_is_the_cpu_providers(capfd):
    made = model([helper.make_node("Exp", ["x"], ["y"])], [tensor("x", [4])], [tensor("y", [4])],
                 opset=6)
    made.ir_version = 3
    opened = check(made, {"x": random(4)}, session(made, severity=2))
    assert [*nodes_of(opened)] == [CPU]
    said = [line for line in capfd.readouterr().err.splitlines() if NAME in line]
    (line,) = said
    assert "[W:" in line and "all is left to others: [onnx] opset 6" in line


def test_results_that_are_inputs_sizes_and_each_other():
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Identity", ["r"], ["same"]),
             helper.make_node("Shape", ["r"], ["sizes"]), helper.make_node("Exp", ["r"], ["y"])]
    made = model(nodes, [tensor("x", ["n", 3])],
                 [tensor("r", ["n", 3]), tensor("same", ["n", 3]), tensor("sizes", [2], INT),
                  tensor("y", ["n", 3])])
    opened = check(made, {"x": random(4, 3)})
    check(made, {"x": random(1, 3)}, opened)


def test_what_moves_data_at_the_borders():
    """All of a model is one node, views of its inputs that are results included."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Exp", ["t"], ["e"]),
             helper.make_node("Reshape", ["e", "flat"], ["y"]),
             helper.make_node("Transpose", ["x"], ["z"])]
    made = model(nodes, [tensor("x", ["n", 6])],
                 [tensor("y", [3, "m"]), tensor("t", [6, "n"]), tensor("z", [6, "n"])],
                 [weight("flat", numpy.array([3, -1]))])
    opened = check(made, {"x": random(4, 6)}, session(made, alone=True))
    assert [len(parts) for parts in nodes_of(opened).values()] == [1]
    check(made, {"x": random(5, 6)}, opened)


def test_an_initializer_that_a_caller_may_replace():
    made, reference = linear()
    made.graph.input.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [5]))
    opened = session(made)
    x, b = random(2, 8), random(5, seed=9)
    (standard,) = opened.run(None, {"x": x})
    numpy.testing.assert_allclose(standard, reference(x), rtol=1e-5, atol=1e-5)
    check(made, {"x": x, "b": b}, opened)


def test_weights_beside_the_file(tmp_path):
    made, reference = linear()
    path = tmp_path / "net.onnx"
    onnx.save(made, path, save_as_external_data=True, location="weights", size_threshold=0)
    x = random(3, 8)
    (got,) = session(path).run(None, {"x": x})
    numpy.testing.assert_allclose(got, reference(x), rtol=1e-5, atol=1e-5)


def branches(condition):
    then = helper.make_graph([helper.make_node("Exp", ["x"], ["t"])], "then", [],
                             [tensor("t", [4])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["o"])], "other", [],
                              [tensor("o", [4])])
    nodes = [helper.make_node("Abs", ["x"], ["a"]),
             helper.make_node("If", [condition], ["b"], then_branch=then, else_branch=other),
             helper.make_node("Add", ["a", "b"], ["y"])]
    return model(nodes, [tensor("x", [4]), tensor("c", [], BOOL)], [tensor("y", [4])])


def test_bodies_go_with_their_node():
    made = branches("c")
    for c in (True, False):
        opened = check(made, {"x": random(4), "c": numpy.array(c)})
    assert "If" in sum(nodes_of(opened)[CPU], [])


def test_ranks_that_a_run_tells():
    """A value of unknown rank is not taken for a scalar, which looks alike in API 23."""
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["t"])], "then", [],
                             [tensor("t", [4])])
    other = helper.make_graph([helper.make_node("Reshape", ["x", "square"], ["o"])], "other", [],
                              [tensor("o", [2, 2])])
    nodes = [helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other),
             helper.make_node("Exp", ["b"], ["e"]), helper.make_node("Relu", ["e"], ["y"]),
             helper.make_node("ReduceSum", ["b"], ["s"], keepdims=0),
             helper.make_node("Sin", ["s"], ["z"])]
    made = model(nodes, [tensor("x", [4]), tensor("c", [], BOOL)],
                 [tensor("y", None), tensor("z", [])], [weight("square", numpy.array([2, 2]))])
    opened = session(made)
    for c in (True, False):
        check(made, {"x": random(4), "c": numpy.array(c)}, opened)


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_nodes_that_wait_for_sizes_of_what_is_computed_before(level):
    """Of a value whose sizes are known before a run. As the file has it, one engine would wait for
    itself; where the runtime has folded them, it takes all."""
    nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Det", ["a"], ["d"]),
             helper.make_node("CumSum", ["d", "zero"], ["u"]),
             helper.make_node("Shape", ["u"], ["s"]),
             helper.make_node("Concat", ["s", "nine"], ["target"], axis=0),
             helper.make_node("Sin", ["a"], ["b"]),
             helper.make_node("Reshape", ["b", "target"], ["y"])]
    made = model(nodes, [tensor("x", [4, 3, 3])], [tensor("y", [4, 9])],
                 [weight("zero", numpy.array(0)), weight("nine", numpy.array([9]))])
    opened = session(made, level=level, op_types_to_exclude="CumSum")
    check(made, {"x": random(4, 3, 3)}, opened)
    ran = {provider: sorted(sum(parts, [])) for provider, parts in nodes_of(opened).items()}
    assert ran == ({NAME: ["Exp", "Reshape", "Sin"]} if level == "ORT_ENABLE_ALL" else
                   {CPU: sorted(node.op_type for node in made.graph.node)})


# --- sessions ---

def test_a_second_session_takes_its_engine_from_the_cache(tmp_path):
    made, reference = linear()
    x = random(2, 8)
    files = set()
    for _ in range(2):
        (got,) = session(made, engine_cache_path=tmp_path).run(None, {"x": x})
        numpy.testing.assert_allclose(got, reference(x), rtol=1e-5, atol=1e-5)
        found = {(p, p.stat().st_ino) for p in (tmp_path / "engines").iterdir()}
        assert found and files in (set(), found)
        files = found


def test_two_sessions_have_their_own_weights():
    (first, one), (second, two) = linear(seed=1), linear(seed=2)
    a, b = session(first), session(second)
    x = random(3, 8)
    for _ in range(2):
        numpy.testing.assert_allclose(a.run(None, {"x": x})[0], one(x), rtol=1e-5, atol=1e-5)
        numpy.testing.assert_allclose(b.run(None, {"x": x})[0], two(x), rtol=1e-5, atol=1e-5)


def test_threads():
    made, reference = linear()
    opened = session(made)
    wrong = []

    def work(seed):
        for i in range(25):
            x = random(1 + (seed + i) % 5, 8, seed=seed * 100 + i)
            (got,) = opened.run(None, {"x": x})
            if not numpy.allclose(got, reference(x), rtol=1e-5, atol=1e-5):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_io_binding():
    made, reference = linear()
    opened = session(made)
    x, y = random(4, 8), numpy.empty((4, 5), numpy.float32)
    binding = opened.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, numpy.float32, y.shape, y.ctypes.data)
    opened.run_with_iobinding(binding)
    numpy.testing.assert_allclose(y, reference(x), rtol=1e-5, atol=1e-5)


# --- errors ---

def test_sizes_that_do_not_fit():
    made = model([helper.make_node("MatMul", ["a", "b"], ["c"]),
                  helper.make_node("Exp", ["c"], ["y"])],
                 [tensor("a", [2, "n"]), tensor("b", ["m", 4])], [tensor("y", [2, 4])])
    opened = check(made, {"a": random(2, 3), "b": random(3, 4)})
    with pytest.raises(Exception, match='"b": dimension 0 is 2, want 3'):
        opened.run(None, {"a": random(2, 3), "b": random(2, 4)})
    check(made, {"a": random(2, 5), "b": random(5, 4)}, opened)


def test_indices_out_of_range():
    made = model([helper.make_node("Gather", ["w", "i"], ["g"]),
                  helper.make_node("Exp", ["g"], ["y"])],
                 [tensor("i", ["n"], INT)], [tensor("y", ["n", 4])], [weight("w", random(6, 4))])
    opened = check(made, {"i": numpy.array([0, 5])})
    with pytest.raises(Exception, match="index"):
        opened.run(None, {"i": numpy.array([0, 6])})
    check(made, {"i": numpy.array([3])}, opened)


# --- the library ---

def output_of(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def test_only_the_entry_points_are_shown():
    listing = output_of("nm", "-D", "--defined-only", provider_tests.vulkan.get_library_path())
    assert {line.split()[-1] for line in listing.splitlines()} == {"CreateEpFactories",
                                                                   "ReleaseEpFactory"}


def test_neither_torch_nor_python_is_linked():
    lines = output_of("ldd", provider_tests.vulkan.get_library_path()).splitlines()
    names = " ".join(line.split()[0] for line in lines)
    assert "libvk_compiler" in names and "not found" not in "".join(lines)
    assert not [word for word in ("torch", "c10", "python") if word in names]


def test_a_process_without_torch(tmp_path):
    made, _ = linear()
    onnx.save(made, tmp_path / "net.onnx")
    printed = in_process("""
register()
opened = session(sys.argv[1])
x = numpy.ones((2, 8), numpy.float32)
cpu = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
want = cpu.run(None, {"x": x})
numpy.testing.assert_allclose(opened.run(None, {"x": x})[0], want[0], rtol=1e-5, atol=1e-5)
print("torch" in sys.modules, "libtorch" in open("/proc/self/maps").read())
""", tmp_path / "net.onnx")
    assert printed == "False False\n"


def test_registered_and_unregistered_many_times(tmp_path):
    made, _ = linear()
    onnx.save(made, tmp_path / "net.onnx")
    printed = in_process("""
import gc, resource
x = numpy.ones((2, 8), numpy.float32)
for cycle in range(20):
    register()
    assert NAME in {device.ep_name for device in onnxruntime.get_ep_devices()}
    opened = session(sys.argv[1])
    opened.run(None, {"x": x})
    del opened
    gc.collect()
    onnxruntime.unregister_execution_provider_library(NAME)
    assert NAME not in {device.ep_name for device in onnxruntime.get_ep_devices()}
    if cycle == 5:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""", tmp_path / "net.onnx")
    assert int(printed) < 8 << 10  # KiB


def test_registering_opens_no_vulkan(tmp_path):
    """So a process can register, and its children can still have sessions."""
    made, _ = linear()
    onnx.save(made, tmp_path / "net.onnx")
    printed = in_process("""
import os
register()
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == NAME]
print(len(devices) > 0, "libvulkan.so" in open("/proc/self/maps").read(), flush=True)
if os.fork() == 0:
    (y,) = session(sys.argv[1]).run(None, {"x": numpy.ones((2, 8), numpy.float32)})
    print(y.shape, flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
""", tmp_path / "net.onnx")
    assert printed == "True False\n(2, 5)\n0\n"


# --- the backend tests ---

LISTED = re.findall(r"of onnx (\S+) pass with onnxruntime (\S+),", provider_tests.LIST.read_text())
of_the_versions = pytest.mark.skipif(
    LISTED != [(onnx.__version__, onnxruntime.__version__)],
    reason=f"the list is of onnx and onnxruntime {LISTED}")


@of_the_versions
@pytest.mark.parametrize("name", share_of(sorted(provider_tests.node_tests.cases()), SHARES))
def test_case(name):
    result = provider_tests.run(name)
    if name.startswith(provider_tests.OF_A_LOCALE):
        assert result.status != "wrong", result.reason
    else:
        assert result.status in ("pass", provider_tests.listed().get(name)), result.reason


@of_the_versions
def test_the_page_has_the_numbers_of_the_list():
    text = provider_tests.LIST.read_text()
    (node,), (passed,), (alone,) = (map(int, re.findall(pattern, text)) for pattern in (
        r"of the (\d+) node tests", r"# (\d+) of the \d", r"# (\d+) of them by the provider alone"))
    cases, listed = provider_tests.node_tests.cases(), provider_tests.listed()
    count = collections.Counter(
        listed.get(name, "pass") for name, case in cases.items()
        if case.kind == "node" and not name.startswith(provider_tests.OF_A_LOCALE))
    assert (passed, alone) == (count["pass"] + count["helped"], count["pass"])
    assert node == sum(case.kind == "node" for case in cases.values()) == 1884
    assert set(listed.values()) <= {"helped", "cpu", "failed", "random"}
    page = (Path(__file__).parents[2] / "docs" / "onnxruntime.md").read_text()
    ((version, _),) = LISTED
    said = f"Of the {node} node tests of onnx {version} {passed} pass, {alone} of them by"
    assert said in " ".join(page.split())


@of_the_versions
@pytest.mark.slow
def test_every_case():
    results = [provider_tests.run(name) for name in provider_tests.node_tests.cases()]
    assert [r for r in results if r.status == "wrong"] == []
    assert provider_tests.text_of(results) == provider_tests.LIST.read_text(), (
        "run tests/onnx/provider_tests.py --write")
