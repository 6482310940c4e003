"""tv.Config: YAML files, their schema, what comes before what; vkexec reads the same files."""

import json
import math
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import torch_vulkan as tv
from torch_vulkan._base.setting_checks import ROWS

VKEXEC = Path(tv.__file__).parent / "bin" / "vkexec"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    """Those of the test run would come before the files."""
    for key in tv.Config.model_fields:
        monkeypatch.delenv(f"TORCH_VULKAN_{key.upper()}", raising=False)


def written(tmp_path, text):
    path = tmp_path / "net.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def network(tmp_path):
    """y = tanh(x w), of any number of rows."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", kind, ["n", 3])],
        [helper.make_tensor_value_info("y", kind, ["n", 4])],
        [numpy_helper.from_array(numpy.eye(3, 4, dtype="float32"), "w")])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)],
                                ir_version=10), path)
    return path


def test_a_file_builds_an_engine(tmp_path, network):
    path = written(tmp_path, f"""
onnx_path: {network}
engine_path: {tmp_path / 'net.vke'}   # written when it is built
workspace: 64
min_shapes: {{x: [2, 3]}}
max_shapes: {{x: [8, 3]}}
optimization_level: 0
""")
    config = tv.Config.from_yaml(path)
    assert config.settings() == {"workspace_size": 64 << 20, "optimization_level": 0}
    assert config.inputs()["x"].dims == [(2, 8, 8), (3, 3, 3)]
    session = config.compile()
    x = numpy.ones((2, 3), "float32")
    numpy.testing.assert_allclose(session(x)[:, :3], numpy.tanh(x), rtol=1e-5)
    with pytest.raises(ValueError, match="1"):
        session(x[:1])
    assert tv.Engine.load(tmp_path / "net.vke").info()["symbols"][0]["max"] == 8


def test_settings_of_a_module():
    config = tv.Config(enabled_precisions=["float32", "bfloat16"], min_block_size="inf",
                       torch_executed_ops=["aten::relu"], autocast_excluded_ops=["aten::mm"])
    given = config.settings()
    assert given["enabled_precisions"] == {torch.float32, torch.bfloat16}
    assert given["min_block_size"] == math.inf
    tv.Settings.from_options(given)
    assert tv.Config(fp16=True).settings()["enabled_precisions"] == {torch.float32, torch.float16}
    program = tv.compile(torch.nn.Linear(3, 4).eval(), [torch.zeros(2, 3)],
                         **tv.Config(optimization_level=0, min_block_size=1).settings())
    assert len(tv.engines(program)) == 1


def test_environment_over_file_over_default(tmp_path, monkeypatch):
    path = written(tmp_path, "optimization_level: 4\ndevice: llvmpipe\n")
    assert tv.Config().optimization_level == 3
    assert tv.Config.from_yaml(path).settings() == {"optimization_level": 4, "device": "llvmpipe"}
    monkeypatch.setenv("TORCH_VULKAN_OPTIMIZATION_LEVEL", "1")
    monkeypatch.setenv("TORCH_VULKAN_DEVICE", "0")
    assert tv.Config.from_yaml(path).settings() == {"optimization_level": 1, "device": 0}


# A value of each key in a file, and another one that the environment gives.
KEYS = {
    "device": ("llvmpipe", 0), "min_block_size": (7, "inf"), "weight_budget": (5, 9),
    "torch_executed_ops": (["aten::mm"], ["aten::relu"]),
    "require_full_compilation": (False, True), "pass_through_build_failures": (False, True),
    "truncate_long_and_double": (False, True),
    "enabled_precisions": (["float32"], ["float32", "float16"]),
    "calibration": ("a.cache", None), "enable_autocast": (False, True),
    "autocast_low_precision_type": ("float16", "bfloat16"),
    "autocast_excluded_nodes": (["a"], ["b", "c"]),
    "autocast_excluded_ops": (["aten::mm"], ["aten::relu"]),
    "use_explicit_typing": (False, True), "use_python_runtime": (False, None),
    "use_fp32_acc": (False, True), "disable_tf32": (True, False), "check_indices": (True, False),
    "allow_transformed_convolutions": (False, True),
    "matrix_units": (True, False), "optimization_level": (4, 1), "tuning_seconds": (5, 0),
    "workspace_size": (64, 128), "sparse_weights": (False, True),
    "cache_built_engines": (True, False), "reuse_cached_engines": (True, False),
    "engine_cache_dir": ("a", "b"), "engine_cache_size": (5, 9), "timing_cache_path": ("a", "b"),
    "immutable_weights": (False, True), "dryrun": (False, "report.json"), "debug": (False, "here"),
    "progress": (True, None), "background_tuning": (False, True), "onnx_path": ("a", "b"),
    "graph_path": ("a", "b"), "engine_path": ("a", "b"), "fp16": (False, True),
    "bf16": (False, True), "int8": (False, True), "calibration_cache": ("a", "b"),
    "workspace": (64, 128), "min_shapes": ({"x": [1, 2]}, {"y": [3]}),
    "opt_shapes": ({"x": [1]}, {"x": [2]}), "max_shapes": ({"x": [1]}, {"x": [2]})}


@pytest.mark.parametrize("key", tv.Config.model_fields)
def test_each_key_of_the_environment_is_over_the_file(tmp_path, monkeypatch, key):
    monkeypatch.chdir(tmp_path)
    Path("a.cache").write_text("TRT-8600-EntropyCalibration2\nx: 3c010a14\n")
    of_file, of_environment = KEYS[key]
    # int8 is for `calibration` alone; a YAML document is JSON, too.
    more = {"int8": True} if key == "calibration" else {}
    path = written(tmp_path, json.dumps({key: of_file, **more}))
    assert getattr(tv.Config.from_yaml(path), key) == of_file
    text = of_environment if isinstance(of_environment, str) else json.dumps(of_environment)
    monkeypatch.setenv(f"TORCH_VULKAN_{key.upper()}", text)
    assert getattr(tv.Config.from_yaml(path), key) == of_environment
    path.write_text("{}")
    assert getattr(tv.Config.from_yaml(path), key) == of_environment


@pytest.mark.parametrize("variable, text, message", [
    ("FP16", "perhaps",
     "environment variable TORCH_VULKAN_FP16: fp16: got 'perhaps', want true or false"),
    ("ONNX_PATH", "''", "environment variable TORCH_VULKAN_ONNX_PATH: onnx_path: got '', want a"),
    ("MAX_SHAPES", "{x: [", "in \"environment variable TORCH_VULKAN_MAX_SHAPES\", line 1"),
    ("BF16", "true", r"net.yaml \(after what the environment gives: TORCH_VULKAN_BF16\): got fp16 "
                     "and bf16")])
def test_a_variable_that_is_wrong(tmp_path, monkeypatch, variable, text, message):
    path = written(tmp_path, "fp16: true\n")
    monkeypatch.setenv(f"TORCH_VULKAN_{variable}", text)
    with pytest.raises(ValueError, match=message):
        tv.Config.from_yaml(path)


@pytest.mark.parametrize("text, message", [
    ("optimisation_level: 3", "did you mean 'optimization_level'"),
    ("fp61: true", "did you mean 'fp16'"),
    ("nothing_like_it: 3", "Allowed: onnx_path"),
    ("optimization_level: 9", "optimization_level: got 9, want an integer from 0 to 5"),
    ("optimization_level: high", "optimization_level: got 'high', want an integer from 0 to 5"),
    ("fp16: 1", "fp16: got 1, want true or false"), ("- 1", "got list"),
    ("a: [", 'in ".*net.yaml", line 1'), ("a: " + 3000 * "[", "nested too deeply"),
    ("enabled_precisions: [int4]",
     r"enabled_precisions: got \['int4'\], want a list of float32, float16, bfloat16 and int8"),
    ("onnx_path: ''", "onnx_path: got '', want a path"), ("graph_path: ''", "graph_path: got ''"),
    ("engine_path: ''", "engine_path: got '', want a path"), ("device: ''", "device: got ''"),
    ("calibration_cache: ''", "calibration_cache: got ''"), ("calibration: ''", "calibration: got"),
    ("engine_cache_dir: ''", "engine_cache_dir: got '', want a path"),
    ("timing_cache_path: ''", "timing_cache_path: got ''"), ("dryrun: ''", "dryrun: got ''"),
    ("device: -1", "device: got -1, want a number, a name or a UUID"),
    ("dryrun: 3", "dryrun: got 3, want true, false or a path"),
    ("autocast_low_precision_type: int8", "got 'int8', want float16 or bfloat16"),
    ("torch_executed_ops: [1]", r"got \[1\], want a list of operators, such as \[aten::relu\]"),
    ("autocast_excluded_nodes: ['(']", "autocast_excluded_nodes: got .* regular expression"),
    ("fp16: 1\nworkspace: -1", "fp16: got 1, .*\n.*: workspace: got -1, want a whole number of Mi"),
    ("torch_executed_ops: ['aten::rleu']", "net.yaml: torch_executed_ops: got .*aten::relu"),
    ("min_block_size: 0", 'min_block_size: got 0, want a whole number from 1, or "inf"'),
    ("workspace: 1073741824", "workspace_size=1073741824 is as many bytes"),
    ("fp16: true\nbf16: true", "fp16 and bf16"),
    ("fp16: true\nenabled_precisions: [float32]", "want one"),
    ("workspace: 1\nworkspace_size: 1", "want one"),
    ("min_shapes: {x: [3]}\nmax_shapes: {x: [2]}", "net.yaml: sizes of 'x': .* want min_shape"),
    ("min_shapes: {x: [-3]}", "want sizes from 0 up by name of the input"),
    ("max_shapes: {x: [99999999999999999999]}", "want sizes from 0 up"),
    ("workspace: 99999999999999", "want less than 1048576"), ("a: 1\na: 2", "'a' occurs twice"),
    ("max_shapes: {x: [1], x: [2]}", "'x' occurs twice"), ("[a]: 1", "a key that is no text"),
    ("optimization_level: 0x3", "optimization_level"), ("optimization_level: 1_0", "integer"),
])
def test_what_is_refused(tmp_path, text, message):
    """In words of the file, not of the library that reads it."""
    with pytest.raises(ValueError, match=message) as caught:
        tv.Config.from_yaml(written(tmp_path, text))
    said = str(caught.value)
    assert "net.yaml" in said and "pydantic" not in said and "[settings]" not in said, said
    assert type(caught.value) is ValueError


def test_keywords_that_are_refused():
    with pytest.raises(ValueError) as caught:
        tv.Config(optimization_level=9, engine_path="")
    assert str(caught.value).splitlines() == [
        "tv.Config: engine_path: got '', want a path",
        "tv.Config: optimization_level: got 9, want an integer from 0 to 5"]


def test_an_engine_path_that_can_be_no_file(tmp_path, network):
    """Before anything is built."""
    for path, error, message in (
            (tmp_path, IsADirectoryError, "tv.Config: engine_path: .* is a directory"),
            (tmp_path / "none" / "net.vke", FileNotFoundError, "no folder .*none: make it first")):
        config = tv.Config(onnx_path=network.with_name("missing.onnx"), engine_path=path)
        with pytest.raises(error, match=message):
            config.compile()


@pytest.mark.parametrize("text, good", [
    ("optimization_level: 03", {"optimization_level": 3}), ("fp16: on", {"fp16": True}),
    ("engine_path: 0x3", {"engine_path": "0x3"}), ("engine_path: 2020-01-01", {}),
    ("engine_path: ~", {"engine_path": None}), ("device: 1:30", {"device": "1:30"}),
    ("max_shapes: {1: [2], yes: [3]}", {"max_shapes": {"1": [2], "yes": [3]}}),
    ("calibration:\nenabled_precisions:\nworkspace:\ndevice:", {})])
def test_words_mean_the_same_to_vkexec(tmp_path, text, good):
    path = written(tmp_path, text)
    found = tv.Config.from_yaml(path).model_dump(exclude_unset=True)
    assert found.items() >= good.items()
    said = vkexec(f"--config={path}", "--skipInference").stderr
    assert "want --onnx=FILE or --graph=FILE" in said, said


def quantised_network(folder):
    """y = x w, of a file with QuantizeLinear and DequantizeLinear."""
    rng = numpy.random.default_rng(0)
    weights = {"s": numpy.array(0.05, "float32"), "z": numpy.array(0, "int8"),
               "w": rng.integers(-9, 9, (3, 4)).astype("int8")}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
             helper.make_node("DequantizeLinear", ["w", "s", "z"], ["v"]),
             helper.make_node("MatMul", ["d", "v"], ["y"])]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", kind, ["n", 3])],
        [helper.make_tensor_value_info("y", kind, ["n", 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()])
    path = folder / "quantised.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)],
                                ir_version=10), path)
    return path


def test_int8_of_a_file_that_is_quantised(tmp_path, network):
    """It needs no calibration; a file of floats does."""
    path = quantised_network(tmp_path)
    x = numpy.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    plain = tv.Config(onnx_path=path, optimization_level=0, min_block_size=1).compile()(x)
    made = tv.Config(onnx_path=path, int8=True, optimization_level=0, min_block_size=1).compile()
    assert len(made.engines) == 1
    numpy.testing.assert_allclose(made(x), plain, rtol=1e-5)
    with pytest.raises(ValueError, match="int8 needs a calibration"):
        tv.Config(onnx_path=network, int8=True, optimization_level=0).compile()
    with pytest.raises(ValueError, match="needs calibration="):
        tv.compile(torch.nn.Linear(3, 4), [torch.zeros(2, 3)], **tv.Config(int8=True).settings())
    quick = ("--int8", "--skipInference", "--builderOptimizationLevel=0")
    done = vkexec(f"--onnx={path}", *quick)
    assert done.returncode == 0, done.stderr
    done = vkexec(f"--onnx={network}", *quick)
    assert done.returncode != 0 and "needs a calibration" in done.stderr


def test_a_calibration_cache_is_read_where_int8_is_permitted(tmp_path, network):
    cache = tmp_path / "net.cache"
    cache.write_text("TRT-8600-EntropyCalibration2\nx: 3c010a14\n")
    config = tv.Config(onnx_path=network, calibration_cache=cache, optimization_level=0)
    assert "calibration" not in config.settings()
    config.compile()
    assert tv.Config(int8=True, calibration_cache=cache).settings()["calibration"] == str(cache)
    path = written(tmp_path, f"onnx_path: {network}\ncalibration_cache: {cache}\n"
                             "optimization_level: 0\n")
    done = vkexec(f"--config={path}", "--skipInference")
    assert done.returncode == 0 and "Calibration" not in done.stdout, done.stderr
    done = vkexec(f"--config={path}", "--skipInference", "--int8")
    assert "scales for 1 of 1" in done.stdout, done.stderr


def test_paths_are_taken(tmp_path, network):
    config = tv.Config(onnx_path=network, engine_path=tmp_path / "net.vke",
                       engine_cache_dir=tmp_path / "cache", optimization_level=0)
    config.compile()
    assert (tmp_path / "net.vke").exists()
    assert f"onnx_path: {network}" in config.to_yaml()


def test_an_engine_of_a_model_that_is_none(tmp_path):
    nodes = [helper.make_node("Tanh", ["x"], ["h"]), helper.make_node("NonZero", ["h"], ["y"])]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [6])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [1, "n"])])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              path)
    config = tv.Config(onnx_path=str(path), engine_path=str(tmp_path / "net.vke"),
                       min_block_size=1, optimization_level=0)
    with pytest.raises(tv.UnsupportedError, match="engine_path names .*\n.*NonZero"):
        config.compile()
    assert not (tmp_path / "net.vke").exists()


def test_sizes_that_are_too_large():
    with pytest.raises(ValueError, match="want sizes from 0 to"):
        tv.Input(shape=(10**23, 16))


def test_no_model():
    with pytest.raises(ValueError, match="onnx_path is missing"):
        tv.Config().compile()


def test_the_schema_takes_what_the_model_takes():
    schema = tv.Config.model_json_schema()
    assert {*ROWS} < {*schema["properties"]} and schema["additionalProperties"] is False
    assert schema["properties"]["optimization_level"]["description"].startswith("0: the first")
    for good in ({}, {"fp16": True}, {"min_block_size": "inf"}, {"device": 1},
                 {"max_shapes": {"x": [1, 2]}}):
        jsonschema.validate(good, schema)
        tv.Config(**good)
    for bad in ({"fp16": "yes"}, {"optimization_level": 7}, {"unknown": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)


NAMES = st.text("abc_0 :#'\"{}[],-", min_size=1, max_size=6)
CONFIGS = st.fixed_dictionaries({}, optional={
    "optimization_level": st.integers(0, 5), "min_block_size": st.integers(1, 99) | st.just("inf"),
    "fp16": st.booleans(), "workspace": st.integers(0, 99), "device": st.integers(0, 3) | NAMES,
    "engine_path": NAMES, "autocast_excluded_nodes": st.just(["layer4", "a.*b"]),
    "min_shapes": st.dictionaries(NAMES, st.lists(st.integers(0, 9), max_size=3), max_size=2)})


@given(CONFIGS)
@settings(max_examples=60, deadline=None)
def test_round_trip(values):
    text = tv.Config(**values).to_yaml()
    import yaml

    from torch_vulkan._program.config import _Loader

    assert yaml.safe_load(text) == yaml.load(text, _Loader)
    again = tv.Config(**yaml.safe_load(text) or {})
    assert again.to_yaml() == text and again.model_dump(exclude_unset=True) == values


def test_without_pydantic():
    """The import of the package does not need it, and the error says what to install."""
    code = ("import sys; sys.modules['pydantic'] = None\nimport torch_vulkan as tv\n"
            "try:\n    tv.Config\nexcept ImportError as e:\n    print(e)")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install torch-vulkan[config]" in run.stdout


# --- vkexec ---

def vkexec(*arguments, cwd=None, **environment):
    import os

    return subprocess.run([VKEXEC, *map(str, arguments)], capture_output=True, text=True, cwd=cwd,
                          env={**os.environ, **environment})


def test_vkexec_reads_the_same_file(tmp_path, network):
    config = tv.Config(onnx_path=str(network), engine_path=str(tmp_path / "net.vke"),
                       optimization_level=0, min_shapes={"x": [2, 3]}, max_shapes={"x": [8, 3]},
                       progress=False)
    path = tmp_path / "net.yaml"
    config.to_yaml(path)
    done = vkexec(f"--config={path}", "--skipInference")
    assert done.returncode == 0, done.stderr
    assert "progress: it is for Python" in done.stderr
    assert tv.Engine.load(tmp_path / "net.vke").info()["symbols"][0]["max"] == 8
    # Flags come before the file.
    done = vkexec("--config", path, "--skipInference", "--maxShapes=x:5x3",
                  f"--saveEngine={tmp_path / 'other.vke'}")
    assert done.returncode == 0, done.stderr
    assert tv.Engine.load(tmp_path / "other.vke").info()["symbols"][0]["max"] == 5


def test_vkexec_reads_what_people_write(tmp_path, network):
    path = written(tmp_path, f"""---
# a comment
onnx_path: '{network}'   # and another
device: "0"
workspace: 64
fp16: yes
optimization_level: 0
torch_executed_ops: []
autocast_excluded_nodes:
- a.*b
-   'c # d'
max_shapes:
    x:
      - 4
      - &width 3
min_shapes: {{ x: [1, *width] , }}
""")
    done = vkexec(f"--config={path}", "--skipInference", f"--saveEngine={tmp_path / 'a.vke'}")
    assert done.returncode == 0, done.stderr
    assert tv.Config.from_yaml(path).autocast_excluded_nodes == ["a.*b", "c # d"]
    assert tv.Engine.load(tmp_path / "a.vke").info()["symbols"][0]["max"] == 4


def test_vkexec_and_the_environment(tmp_path, network):
    path = written(tmp_path, f"onnx_path: {network}\noptimization_level: 0\n")
    done = vkexec(f"--config={path}", "--skipInference", TORCH_VULKAN_OPTIMIZATION_LEVEL="9")
    assert done.returncode == 2 and "_OPTIMIZATION_LEVEL: got '9', want 0 to 5" in done.stderr
    path.write_text("onnx_path: none.onnx\noptimization_level: 0\nmax_shapes: {x: [5, 3]}\n"
                    "weight_budget: 5\n")
    made = vkexec(f"--config={path}", "--skipInference", f"--saveEngine={tmp_path / 'a.vke'}",
                  TORCH_VULKAN_ONNX_PATH=network, TORCH_VULKAN_MAX_SHAPES="{x: [8, 3]}",
                  TORCH_VULKAN_FP16="true", TORCH_VULKAN_WEIGHT_BUDGET="7")
    assert made.returncode == 0, made.stderr
    assert "Precision: FP32+FP16" in made.stdout and "weight_budget: 7" in made.stdout
    assert tv.Engine.load(tmp_path / "a.vke").info()["inputs"][0]["shape"] == [8, 3]
    for key, text in (("FP16", "perhaps"), ("MAX_SHAPES", "{x: ["), ("WORKSPACE", "x")):
        wrong = vkexec(f"--config={path}", **{f"TORCH_VULKAN_{key}": text})
        assert wrong.returncode == 2, wrong.stderr
        assert f"environment variable TORCH_VULKAN_{key}:" in wrong.stderr
    for key, text in (("ENGINE_PATH", "null"), ("CALIBRATION", "~"), ("ENGINE_PATH", "# none")):
        done = vkexec(f"--config={path}", "--skipInference", TORCH_VULKAN_ONNX_PATH=network,
                      **{f"TORCH_VULKAN_{key}": text})
        assert done.returncode == 0, (key, text, done.stderr)
    wrong = vkexec(f"--config={path}", TORCH_VULKAN_MAX_SHAPES="null")
    assert wrong.returncode == 2 and "TORCH_VULKAN_MAX_SHAPES: max_shapes: got null" in wrong.stderr
    wrong = vkexec(f"--config={path}", TORCH_VULKAN_ONNX_PATH=network, TORCH_VULKAN_FP16="true",
                   TORCH_VULKAN_BF16="true")
    assert wrong.returncode == 2 and "environment gives: TORCH_VULKAN_BF16" in wrong.stderr
    path.write_text(f"onnx_path: {network}\ndevice: no such device\noptimization_level: 0\n")
    assert vkexec(f"--config={path}", "--skipInference").returncode == 1
    assert vkexec(f"--config={path}", "--skipInference", TORCH_VULKAN_DEVICE="0").returncode == 0


@pytest.mark.parametrize("text, message", [
    ("optimisation_level: 3", "unknown key 'optimisation_level'; did you mean optimization_level"),
    ("fp61: true", "unknown key 'fp61'; did you mean fp16"),
    ("optimization_level: 9", "optimization_level: got 9, want an integer from 0 to 5"),
    ("fp16: 1", "fp16: got 1, want true or false"), ("fp16: true\nbf16: true", "more than one"),
    ("min_shapes: [1]", "sizes by name"),
    ("workspace: 1073741824", "a whole number of MiB below 1048576; workspace_size takes bytes"),
    ("int8: true\ncalibration_cache: none.cache", "calibration_cache: "),
    ("min_shapes: {x: [-1]}", "sizes by name"), ("workspace: x", "MiB"), ("- 1", "want keys"),
    ("a: [1", "net.yaml:1: end of sequence"), ("a: 'b", "net.yaml:1: illegal EOF in scalar"),
    ("a", "want keys"), ("a: 1\na: 2", "net.yaml:2: 'a' occurs twice"),
    ("a: 1\n  b: 2", "net.yaml:2: illegal map value"), ("a: 1\n---\nb: 1", "second document"),
    ("a: [1] 2", "net.yaml:1: end of map"), ("[a]: 1", "net.yaml:1: a key that is no text"),
    ("a: " + "[" * 40 + "]" * 40, "nested deeper"), ("a: &a [*a]", "nested deeper"),
    ("a: &a [1" + ", 1" * 99 + "]\n" + "".join(f"{y}: &{y} [*{x}" + f", *{x}" * 99 + "]\n"
     for x, y in ("ab", "bc", "cd")), "more values"),
    ("onnx_path: 3", "onnx_path: got 3, want a path"),
    ("engine_path: ''", 'net.yaml: engine_path: got "", want a path'),
    ("engine_cache_dir: ''", 'net.yaml: engine_cache_dir: got "", want a path'),
    ("timing_cache_path: ''", 'net.yaml: timing_cache_path: got "", want a path'),
    ("calibration: ''", 'net.yaml: calibration: got "", want a path'),
    ("device: ''", 'net.yaml: device: got "", want a number, a name or a UUID'),
    ("torch_executed_ops: [1]", "vkexec: net.yaml: torch_executed_ops: got 1, want text"),
    ("workspace: 1\nworkspace_size: 1", "want one"), ("device: [1]", "device: got"),
    ("enabled_precisions: [float64]", "want names of float32, float16, bfloat16 and int8"),
    ("enabled_precisions: []", "enabled_precisions: got [], want names of"),
    ("min_block_size: 2.5", "want a whole number from 1"), ("min_block_size: 3.0", "whole number"),
    ("optimization_level:", "optimization_level: got null, want a value"),
    ("min_shapes:", "min_shapes: got null"), ("fp16: ~", "fp16: got null"),
    ("dryrun: null", "dryrun: got null"),
])
def test_vkexec_refuses(tmp_path, text, message):
    written(tmp_path, text)
    done = vkexec("--config=net.yaml", cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_vkexec_without_a_file(tmp_path):
    assert "cannot read" in vkexec(f"--config={tmp_path / 'none.yaml'}").stderr
    assert "cannot read" in vkexec(f"--config={tmp_path}").stderr
    (tmp_path / "large.yaml").write_text("# " + "x" * (1 << 20))
    assert "larger than 1 MiB" in vkexec(f"--config={tmp_path / 'large.yaml'}").stderr


def test_old_scripts(network):
    done = vkexec(f"--onnx={network}", "--workspace=64", "--skipInference",
                  "--builderOptimizationLevel=0")
    assert done.returncode == 0, done.stderr
    done = vkexec(f"--onnx={network}", "--workspace", "64", "--skipInference",
                  "--builderOptimizationLevel=0")
    assert done.returncode == 0 and "workspace: 64 MiB" in done.stdout, done.stderr
    assert "--workspace: got" in vkexec(f"--onnx={network}", "--workspace=much").stderr
    assert "1073741824B is as many bytes" in vkexec(
        f"--onnx={network}", "--workspace=1073741824").stderr
    done = vkexec(f"--onnx={network}", "--exportEngineLayers=f")
    assert done.returncode == 2 and "--exportLayerInfo" in done.stderr


def test_json_is_yaml(tmp_path, network):
    path = written(tmp_path, json.dumps({"onnx_path": str(network), "optimization_level": 0}))
    done = vkexec(f"--config={path}", "--skipInference")
    assert done.returncode == 0, done.stderr
