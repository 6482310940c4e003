"""vkexec compare without reference tensors, debug precision and debug reduce, on small files."""

import json
import math
import re
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from test_vkexec_onnx import every_tensor, run, small_model  # noqa: E402

LEVEL = "--builderOptimizationLevel=0"


def chain():
    """x [n, 8] → relu → product → a product whose sums float16 cannot hold → one that makes them
    small → tanh → product."""
    rng = np.random.default_rng(3)
    weights = {"w": rng.normal(size=(8, 8)), "big": 3e4 * rng.uniform(1, 2, size=(8, 8)),
               "small": 1e-6 * rng.uniform(1, 2, size=(8, 8)), "v": rng.normal(size=(8, 4))}
    nodes = [helper.make_node("Relu", ["x"], ["a"], "first.relu"),
             helper.make_node("MatMul", ["a", "w"], ["b"], "plain"),
             helper.make_node("MatMul", ["b", "big"], ["c"], "overflows+"),
             helper.make_node("MatMul", ["c", "small"], ["d"], "shrinks"),
             helper.make_node("Tanh", ["d"], ["e"], "tanh"),
             helper.make_node("MatMul", ["e", "v"], ["y"], "last")]
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(value.astype("float32"), name)
         for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with chain.onnx, small.onnx and x.npy of chain."""
    folder = tmp_path_factory.mktemp("harm")
    onnx.save(chain(), folder / "chain.onnx")
    onnx.save(small_model(), folder / "small.onnx")
    x = np.random.default_rng(4).normal(size=(5, 8)).astype("float32")
    np.save(folder / "x.npy", x)
    return folder


def rows_of(text):
    """name → columns of the table of tensors."""
    table = text.split("made by\n")[1].split("=== Outputs")[0]
    return {m[1]: m[2].split() for m in re.finditer(r"\[I\] (\S+) +(\S.*)", table)}


def test_layers_by_harm(files, tmp_path):
    found = tmp_path / "found.json"
    text = run("compare", f"--onnx={files}/chain.onnx", f"--loadInputs=x:{files}/x.npy", "--fp16",
               LEVEL, f"--exportComparison={found}", "--noCache")
    rows = rows_of(text)
    assert {"a", "b", "c", "d", "e", "y"} <= set(rows)
    data = json.loads(found.read_text())
    assert data["format"] == "torch_vulkan.comparison"
    assert data["layers"][0]["name"] == "c" and "overflows+" in data["layers"][0]["node"]
    assert data["layers"][0]["nodes"] == ["overflows+"]
    assert data["layers"][0]["snr_db"] == "-inf" and data["layers"][0]["max_error"] == "inf"
    numbers = [float(row["harm"]) for row in data["layers"]]
    assert numbers == sorted(numbers, reverse=True)
    (result,) = data["results"]
    assert result["name"] == "y" and float(result["snr_db"]) < 40
    assert "Recommended" not in text


def test_figures_are_those_of_the_tensors(files, tmp_path):
    """Of a network that float16 holds: against ONNX Runtime in float32, by NumPy."""
    x = np.random.default_rng(5).normal(size=(3, 7)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    found = tmp_path / "found.json"
    run("compare", f"--onnx={files}/small.onnx", f"--loadInputs=x:{tmp_path}/x.npy", "--fp16",
        LEVEL, f"--exportComparison={found}", "--noCache")
    layers = {row["name"]: row for row in json.loads(found.read_text())["layers"]}
    assert set(layers) == {"product", "layer/sum:0", "hidden", "scores", "y"}
    run(f"--onnx={files}/small.onnx", f"--loadInputs=x:{tmp_path}/x.npy", "--fp16", LEVEL,
        "--noCache", "--iterations=1", "--duration=0", "--warmUp=0",
        f"--exportOutput={tmp_path}/o/")
    want = every_tensor(small_model(), x)["y"].astype("float64")
    got = np.load(tmp_path / "o" / "y.npy").astype("float64")
    (result,) = json.loads(found.read_text())["results"]
    snr = -10 * math.log10(np.square(got - want).sum() / np.square(want).sum())
    assert result["snr_db"] == pytest.approx(snr, abs=0.2)
    assert result["max_error"] == pytest.approx(np.abs(got - want).max(), rel=0.02)
    for row in layers.values():
        assert 40 < row["snr_db"] < 100 and 0.9999 < row["cosine"] <= 1


def test_an_exact_engine_has_no_harm(files):
    text = run("compare", f"--onnx={files}/small.onnx", "--shapes=x:2x7", LEVEL, "--noCache",
               "--atol=1e-5")
    for name, columns in rows_of(text).items():
        if name != "tensor":
            assert columns[1] == "inf" or float(columns[1]) > 100, name


def test_a_tolerance_is_for_outputs(files):
    flags = ["compare", f"--onnx={files}/small.onnx", "--shapes=x:2x7", "--fp16", LEVEL,
             "--noCache"]
    assert "outside of" in run(*flags, "--atol=1e-9", "--rtol=1e-9", code=1)
    run(*flags, "--atol=0.1")


def test_sensitivity_recommends_what_helps(files, tmp_path):
    found = tmp_path / "found.json"
    text = run("compare", f"--onnx={files}/chain.onnx", f"--loadInputs=x:{files}/x.npy", "--fp16",
               LEVEL, "--sensitivity", f"--exportComparison={found}", "--noCache")
    assert "recommended" in text
    data = json.loads(found.read_text())
    assert [row["layers"] for row in data["sensitivity"]] == [0, 1, 2, 4, 5]
    before, after = (float(data["sensitivity"][i]["snr_db"]) for i in (0, -1))
    assert before < 30 < 50 < after
    patterns = data["autocast_excluded_nodes"]
    assert r"^overflows\+$" in patterns and len(patterns) < 6
    yaml = tmp_path / "keep.yaml"
    yaml.write_text(text.split("for a --config file:")[1].split("&&&&")[0])
    lines = re.sub(r"^\[.*?\] \[I\] ?", "", yaml.read_text(), flags=re.M).strip()
    yaml.write_text(lines + "\n")
    out = run("compare", f"--onnx={files}/chain.onnx", f"--loadInputs=x:{files}/x.npy", "--fp16",
              LEVEL, f"--config={yaml}", f"--exportComparison={found}", "--noCache")
    (result,) = json.loads(found.read_text())["results"]
    assert float(result["snr_db"]) > 30, out


def test_references_of_others(files, tmp_path):
    """Tensors of a directory are the exact ones, where they are."""
    x = np.random.default_rng(5).normal(size=(3, 7)).astype("float32")
    ref = tmp_path / "ref"
    ref.mkdir()
    np.save(ref / "x.npy", x)
    tensors = every_tensor(small_model(), x)
    tensors["hidden"] = tensors["hidden"] + 1
    for name, value in tensors.items():
        np.save(ref / (re.sub(r"[^A-Za-z0-9.-]", "_", name) + ".npy"), value)
    found = tmp_path / "found.json"
    run("compare", f"--onnx={files}/small.onnx", f"--ref={ref}", LEVEL, "--noCache",
        f"--exportComparison={found}")
    layers = json.loads(found.read_text())["layers"]
    assert layers[0]["name"] == "hidden" and layers[0]["max_error"] == pytest.approx(1, rel=1e-3)


def test_debug_precision(files, tmp_path):
    keep = tmp_path / "keep.yaml"
    flags = [f"--onnx={files}/chain.onnx", f"--loadInputs=x:{files}/x.npy", "--fp16", LEVEL]
    text = run("debug", "precision", *flags, "--snr=40", f"--save={keep}", "--noCache")
    count = re.search(r"(\d+) of 6 layers must stay in float32 \((\d+) runs\)", text)
    assert int(count[1]) in (1, 2) and int(count[2]) <= 20
    assert "\n- '^shrinks$'\n" in keep.read_text(), "its input has to be float32"
    found = tmp_path / "found.json"
    run("compare", *flags, f"--config={keep}", f"--exportComparison={found}", "--noCache")
    assert float(json.loads(found.read_text())["results"][0]["snr_db"]) >= 40
    # No layer of the list can be left out.
    lines = keep.read_text().splitlines()
    for line in lines[1:]:
        less = [other for other in lines if other != line]
        (tmp_path / "less.yaml").write_text(
            "\n".join(less if len(less) > 1 else ["autocast_excluded_nodes: []"]) + "\n")
        run("compare", *flags, f"--config={tmp_path}/less.yaml", f"--exportComparison={found}",
            "--noCache")
        assert float(json.loads(found.read_text())["results"][0]["snr_db"]) < 40
    again = run("debug", "precision", *flags, "--snr=40", f"--save={tmp_path}/2.yaml", "--noCache")
    assert (tmp_path / "2.yaml").read_text() == keep.read_text()
    assert re.search(r"(\d+) of 6 .*", again)[0] == count[0]


def test_debug_precision_that_is_not_needed_or_not_enough(files, tmp_path):
    flags = ["debug", "precision", f"--onnx={files}/small.onnx", "--shapes=x:2x7", "--fp16", LEVEL,
             "--noCache"]
    text = run(*flags, "--snr=20", f"--save={tmp_path}/none.yaml")
    assert "0 of 5 layers must stay in float32" in text
    assert (tmp_path / "none.yaml").read_text() == "autocast_excluded_nodes: []\n"
    assert "not even with all layers in float32" in run(*flags, "--snr=900", "--ref=" + str(
        _wrong_references(tmp_path)), code=1)
    text = run("debug", "precision", f"--onnx={files}/chain.onnx", f"--loadInputs=x:{files}/x.npy",
               "--fp16", LEVEL, "--noCache", "--runs=2")
    assert "Stopped after 2 runs" in text and "6 of 6 layers" in text


def _wrong_references(tmp_path):
    ref = tmp_path / "wrong"
    ref.mkdir(exist_ok=True)
    x = np.zeros((2, 7), "float32")
    np.save(ref / "x.npy", x)
    np.save(ref / "y.npy", np.full((2, 5), 7, "float32"))
    return ref


def long_model(count=40, bad=(17,)):
    """x → count nodes of one element each; those of `bad` are of an operator that nobody has."""
    nodes, at = [], "x"
    for i in range(count):
        op = "NoSuchThing" if i in bad else ("Relu", "Neg", "Exp", "Tanh")[i % 4]
        nodes.append(helper.make_node(op, [at], [f"t{i}"], f"node{i}"))
        at = f"t{i}"
    graph = helper.make_graph(nodes, "long",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                              [helper.make_tensor_value_info(at, TensorProto.FLOAT, [2, 3])])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    if bad:
        for i in bad:  # nothing infers it
            made.graph.value_info.append(
                helper.make_tensor_value_info(f"t{i}", TensorProto.FLOAT, [2, 3]))
    return made


def test_reduce_an_error(tmp_path):
    onnx.save(long_model(), tmp_path / "long.onnx")
    text = run("debug", "reduce", f"--onnx={tmp_path}/long.onnx", f"--save={tmp_path}/small.onnx",
               LEVEL, "--noCache")
    assert "1 of 40 nodes fail alike" in text and '[NoSuchThing "node17"]' in text
    small = onnx.load(tmp_path / "small.onnx")
    assert [node.name for node in small.graph.node] == ["node17"]
    assert [(v.name, [d.dim_value for d in v.type.tensor_type.shape.dim])
            for v in small.graph.input] == [("t16", [2, 3])]
    assert "NoSuchThing" in run(f"--onnx={tmp_path}/small.onnx", "--noCache", code=1)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["long.onnx", "small.onnx"]


def test_reduce_a_wrong_result(files, tmp_path):
    """What float16 overflows in, with the tensors that it overflows on."""
    flags = ["--fp16", LEVEL, "--noCache", "--atol=0.01", "--rtol=0.01"]
    text = run("debug", "reduce", f"--onnx={files}/chain.onnx", f"--loadInputs=x:{files}/x.npy",
               f"--save={tmp_path}/small.onnx", *flags)
    assert "output " in text and "is wrong" in text
    small = onnx.load(tmp_path / "small.onnx")
    onnx.checker.check_model(small)
    names = [node.name for node in small.graph.node]
    assert {"overflows+", "shrinks"} & {*names} and len(names) <= 2
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in small.graph.initializer}
    original = {t.name: numpy_helper.to_array(t) for t in chain().graph.initializer}
    assert all(np.array_equal(value, original[name]) for name, value in weights.items())
    out = run("compare", f"--onnx={tmp_path}/small.onnx", f"--ref={tmp_path}/small.onnx.tensors",
              "--outputsOnly", *flags, code=1)
    assert "differs" in out
    run("compare", f"--onnx={tmp_path}/small.onnx", f"--ref={tmp_path}/small.onnx.tensors",
        "--outputsOnly", LEVEL, "--noCache", "--rtol=1e-3")


def test_reduce_an_index_that_is_out_of_range(tmp_path):
    """Of a kernel of several operators, which parts of the model fuse in other ways."""
    nodes = [helper.make_node("Exp", ["x"], ["a"], name="exp"),
             helper.make_node("Gather", ["a", "i"], ["b"], name="gather", axis=0),
             helper.make_node("Tanh", ["b"], ["c"], name="tanh"),
             helper.make_node("Neg", ["c"], ["y"], name="neg")]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3]),
                       helper.make_tensor_value_info("i", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
              tmp_path / "net.onnx")
    np.save(tmp_path / "i.npy", np.int64([1, 9]))
    text = run("debug", "reduce", f"--onnx={tmp_path}/net.onnx", LEVEL, "--noCache",
               f"--loadInputs=i:{tmp_path}/i.npy", f"--save={tmp_path}/small.onnx")
    assert "index out of range" in text and "1 of 4 nodes fail alike" in text, text
    assert [n.name for n in onnx.load(tmp_path / "small.onnx").graph.node] == ["gather"]


@pytest.mark.parametrize("command, status", [("nosuchcommand {}", 127), ("/tmp {}", 126)])
def test_reduce_by_a_command_that_is_none(command, status, tmp_path):
    onnx.save(long_model(bad=()), tmp_path / "long.onnx")
    said = run("debug", "reduce", f"--onnx={tmp_path}/long.onnx", f"--check={command}",
               f"--save={tmp_path}/small.onnx", code=1)
    assert f"the command cannot be run (exit status {status})" in said
    assert not (tmp_path / "small.onnx").exists()


CHECK = """
import sys, onnx
names = {node.op_type for node in onnx.load(sys.argv[1]).graph.node}
sys.exit(3 if {"Exp", "Tanh"} <= names else 0)
"""


def test_reduce_by_a_command(tmp_path):
    onnx.save(long_model(bad=()), tmp_path / "it's long.onnx")
    (tmp_path / "check.py").write_text(CHECK)
    check = f"--check={sys.executable} {tmp_path}/check.py {{}}"
    text = run("debug", "reduce", f"--onnx={tmp_path}/it's long.onnx", check,
               f"--save={tmp_path}/it's small.onnx", "--runs=60")
    assert "Failure: exit status 3" in text and "2 of 40 nodes fail alike" in text
    small = onnx.load(tmp_path / "it's small.onnx")
    onnx.checker.check_model(small)
    assert sorted(node.op_type for node in small.graph.node) == ["Exp", "Tanh"]
    assert not list(tmp_path.glob("*candidate*"))
    text = run("debug", "reduce", f"--onnx={tmp_path}/it's long.onnx", "--check=false", code=1)
    assert "got 'false', want a command with {} in it" in text
    text = run("debug", "reduce", f"--onnx={tmp_path}/it's long.onnx", "--check=true {}", code=1)
    assert "the command of --check ends with 0" in text
    text = run("debug", "reduce", f"--onnx={tmp_path}/it's long.onnx", "--check=sleep 60 # {}",
               "--checkSeconds=1", "--runs=1", f"--save={tmp_path}/slow.onnx")
    assert "Failure: exit status 137" in text and "Stopped after 1 runs" in text


def test_reduce_what_does_not_fail(files, tmp_path):
    text = run("debug", "reduce", f"--onnx={files}/small.onnx", "--shapes=x:2x7", LEVEL,
               f"--save={tmp_path}/none.onnx", "--noCache", code=1)
    assert "does not fail" in text and not list(tmp_path.iterdir())


def test_reduce_keeps_constants_and_external_weights(tmp_path):
    """A Reshape's shape that is computed from sizes becomes a constant; weights come inside."""
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("Relu", ["x"], ["a"], "relu"),
             helper.make_node("Shape", ["a"], ["s"], "shape"),
             helper.make_node("Slice", ["s", "one", "two"], ["tail"], "slice"),
             helper.make_node("Concat", ["minus", "tail"], ["wanted"], "concat", axis=0),
             helper.make_node("Reshape", ["a", "wanted"], ["r"], "reshape"),
             helper.make_node("NoSuchThing", ["r", "w"], ["y"], "bad")]
    constants = {"one": np.array([1]), "two": np.array([2]), "minus": np.array([-1])}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(rng.normal(size=(64, 64)).astype("float32"), "w"),
         *(numpy_helper.from_array(v.astype("int64"), k) for k, v in constants.items())])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="w.bin",
              size_threshold=1024)
    (tmp_path / "check.py").write_text(
        "import sys, onnx\nm = onnx.load(sys.argv[1], load_external_data=False)\n"
        "ops = [n.op_type for n in m.graph.node]\n"
        "sys.exit('Reshape' in ops and 'NoSuchThing' in ops)\n")
    run("debug", "reduce", f"--onnx={tmp_path}/net.onnx", f"--save={tmp_path}/sub/small.onnx",
        f"--check={sys.executable} {tmp_path}/check.py {{}}", code=2)  # there is no such folder
    run("debug", "reduce", f"--onnx={tmp_path}/net.onnx", f"--save={tmp_path}/small.onnx",
        f"--check={sys.executable} {tmp_path}/check.py {{}}")
    small = onnx.load(tmp_path / "small.onnx", load_external_data=False)
    held = {t.name: numpy_helper.to_array(t) for t in small.graph.initializer}
    assert [n.op_type for n in small.graph.node] == ["Reshape", "NoSuchThing"]
    assert held["wanted"].tolist() == [-1, 3] and held["w"].shape == (64, 64)
    assert np.array_equal(held["w"], numpy_helper.to_array(
        onnx.load(tmp_path / "net.onnx").graph.initializer[0]))


def test_reduce_takes_data_of_constants_and_bodies_inside(tmp_path):
    data = {name: np.full((64, 64), i, "float32") for i, name in enumerate(("c", "then", "else"))}
    tensors = {name: numpy_helper.from_array(array, name) for name, array in data.items()}
    result = [helper.make_tensor_value_info("r", TensorProto.FLOAT, [64, 64])]
    bodies = {f"{name}_branch": helper.make_graph(
        [helper.make_node("Add", ["x", name], ["r"])], name, [], result, [tensors[name]])
        for name in ("then", "else")}
    nodes = [helper.make_node("Constant", [], ["c"], value=tensors["c"]),
             helper.make_node("If", ["chosen"], ["i"], **bodies),
             helper.make_node("NoSuchThing", ["i", "c"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64]),
                     helper.make_tensor_value_info("chosen", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 64])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="w.bin",
              size_threshold=1024, convert_attribute=True)
    assert (tmp_path / "w.bin").stat().st_size >= 3 * 64 * 64 * 4
    run("debug", "reduce", f"--onnx={tmp_path}/net.onnx", f"--save={tmp_path}/small.onnx",
        "--check=! (grep -q NoSuchThing {} && grep -q then_branch {})")
    small = onnx.load(tmp_path / "small.onnx", load_external_data=False)
    nodes = {node.op_type: node for node in small.graph.node}
    held = [nodes["Constant"].attribute[0].t,
            *(body.g.initializer[0] for body in nodes["If"].attribute)]
    for tensor in held:
        assert tensor.data_location != TensorProto.EXTERNAL
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), data[tensor.name])


@pytest.mark.parametrize("arguments, message", [
    (["debug"], "want debug precision or debug reduce"),
    (["debug", "all"], "got 'all', want debug precision or debug reduce"),
    (["debug", "reduce"], "debug: want --onnx=FILE"),
    (["debug", "precision", "--onnx=x"], "want a precision to search in"),
    (["debug", "precision", "--onnx=x", "--check=y"], "unknown flag --check"),
    (["debug", "precision", "--onnx=x", "--fp16", "--snr=nan"], "--snr"),
    (["debug", "reduce", "--onnx=x", "--runs=0"], "--runs"),
    (["debug", "reduce", "--onnx=x", "--save="], "--save: 1 required FILE missing"),
    (["compare", "--onnx=x", "--sensitivity"], "--sensitivity needs a precision"),
    (["compare", "--loadEngine=x"], "--loadEngine needs --ref=DIR"),
    (["compare", "--loadEngine=x", "--ref=y", "--exportComparison=z"], "need --onnx"),
])
def test_bad_command_lines(arguments, message):
    assert message in run(*arguments, code=2)
