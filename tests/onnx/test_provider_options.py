"""Options of ONNX Runtime's provider: what each of them does, and which are refused."""

import json

import numpy
import onnx
import onnxruntime
import provider_tests
import pytest
from provider_tests import CPU, NAME, nodes_of, session
from test_provider import check, in_process, random

import torch_vulkan as tv

from onnx_models import linear

pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")


def said(capfd, **options):
    """What a session logs of the provider."""
    capfd.readouterr()
    session(linear()[0], **options)
    return [line for line in capfd.readouterr().err.splitlines() if NAME in line]


@pytest.mark.parametrize("option", ["device", "device_id"])
def test_the_device_that_is_named(option, capfd):
    """The log, of all sessions' severity, says what it is called. ONNX Runtime itself refuses an
    index that its own list of the provider's devices does not have."""
    provider_tests.register()
    listed = sum(device.ep_name == NAME for device in onnxruntime.get_ep_devices())
    devices = tv.devices()[:listed] if option == "device_id" else tv.devices()
    try:
        onnxruntime.set_default_logger_severity(1)
        given = devices[-1].name if option == "device" else len(devices) - 1
        lines = said(capfd, **{option: given})
    finally:
        onnxruntime.set_default_logger_severity(2)
    assert any(f"2 of 2 nodes run in 1 engines on {devices[-1].name}" in line for line in lines)


def test_the_log_says_what_is_left(capfd):
    options = {"op_types_to_exclude": "Relu"}
    (line,) = said(capfd, detailed_build_log="true", **options)
    assert "[W:" in line and '[Relu "/head/Relu"] is left to others' in line
    assert said(capfd, detailed_build_log="0", **options) == []


def entries(folder):
    return {path.name for path in (folder / "engines").glob("*")}


def test_engines_are_kept_or_not(tmp_path):
    made, _ = linear()
    options = {"engine_cache_path": tmp_path}
    session(made, engine_cache_enable=0, **options)
    assert not entries(tmp_path)
    session(made, **options)
    assert len(entries(tmp_path)) == 1


@pytest.mark.parametrize("options", [
    {"max_workspace_size": 1 << 20}, {"workspace_size": 1 << 20}, {"check_indices": 0},
    {"builder_optimization_level": 1}, {"fp16_enable": "True"}, {"enabled_precisions": "bfloat16"}])
def test_options_of_what_is_built(options, tmp_path):
    """They make another engine."""
    made, _ = linear()
    session(made, engine_cache_path=tmp_path)
    before = entries(tmp_path)
    session(made, engine_cache_path=tmp_path, **options)
    assert before < entries(tmp_path)


@pytest.mark.parametrize("option", ["engine_hw_compatible", "context_memory_sharing_enable"])
def test_what_is_always_so(option, tmp_path):
    """It makes no other engine."""
    made, _ = linear()
    session(made, engine_cache_path=tmp_path)
    before = entries(tmp_path)
    session(made, engine_cache_path=tmp_path, **{option: 1})
    assert before == entries(tmp_path)
    with pytest.raises(Exception, match=f"option {option}: got 'maybe'"):
        session(made, **{option: "maybe"})


def test_times_are_kept_or_not(tmp_path):
    made, _ = linear()
    options = {"builder_optimization_level": 5, "engine_cache_enable": 0}
    times = tmp_path / "times.json"
    session(made, timing_cache_enable="False", timing_cache_path=times, **options)
    assert not times.exists()
    session(made, timing_cache_path=times, **options)
    json.loads(times.read_text())


def test_graphs_are_written(tmp_path):
    onnx.save(linear()[0], tmp_path / "net.onnx")
    for dump in ("0", "1"):
        in_process("""
import os
os.chdir(sys.argv[1])
register()
onnxruntime.InferenceSession("net.onnx", providers=[(NAME, {
    "dump_subgraphs": sys.argv[2], "min_subgraph_size": "1", "engine_cache_enable": "0"})],
    enable_fallback=0)
""", tmp_path, dump)
        assert (tmp_path / "vulkan_subgraphs").is_dir() == (dump == "1")


def test_fewest_nodes_of_an_engine():
    made, _ = linear()
    assert [*nodes_of(session(made, min_subgraph_size=1))] == [NAME]
    assert [*nodes_of(check(made, {"x": random(2, 8)}, min_subgraph_size=50))] == [CPU]


def test_float16():
    """Sums are float32; what is stored between layers is not."""
    made, reference = linear()
    x = random(4, 8)
    (exact,) = session(made).run(None, {"x": x})
    (got,) = session(made, fp16_enable=1).run(None, {"x": x})
    assert got.dtype == numpy.float32 and not numpy.array_equal(got, exact)
    numpy.testing.assert_allclose(got, reference(x), rtol=1e-2, atol=1e-2)


def table(path, largest, name="x"):
    """A calibration table of one tensor, as TensorRT writes it."""
    scale = numpy.float32(largest / 127).view(numpy.uint32)
    path.write_text(f"TRT-8600-EntropyCalibration2\n{name}: {scale:08x}\n")
    return path


@pytest.mark.parametrize("name", ["int8_calibration_table_name", "calibration"])
def test_int8(name, tmp_path):
    made, reference = linear()
    x = random(4, 8)
    (exact,) = session(made).run(None, {"x": x})
    options = {name: table(tmp_path / "net.cache", numpy.abs(x).max())}
    (got,) = session(made, enabled_precisions="int8", **options).run(None, {"x": x})
    assert not numpy.array_equal(got, exact)
    numpy.testing.assert_allclose(got, reference(x), atol=0.1)


def test_int8_as_the_tensorrt_provider_has_it(tmp_path):
    """The table may lie in the folder of the cache, and either precision is permitted."""
    made, reference = linear()
    x = random(4, 8)
    table(tmp_path / "net.cache", numpy.abs(x).max())
    opened = session(made, int8_enable=1, int8_calibration_table_name="net.cache",
                     int8_use_native_calibration_table=1, engine_cache_path=tmp_path)
    assert [*nodes_of(opened)] == [NAME]
    numpy.testing.assert_allclose(opened.run(None, {"x": x})[0], reference(x), atol=0.1)


@pytest.mark.parametrize("options, reason", [
    ({"int8_enable": 1}, "int8 needs a calibration"),
    ({"enabled_precisions": "float32,int8"}, "int8 needs a calibration"),
    ({"int8_enable": 1, "calibration": "other"}, "no scale of it is of this model")])
def test_int8_that_does_not_fit_leaves_floats(options, reason, tmp_path, capfd):
    """And says so."""
    made, _ = linear()
    if "calibration" in options:
        options = {**options, "calibration": table(tmp_path / "other", 1, "other")}
    (line,) = said(capfd, **options)
    assert "[W:" in line and "nothing is computed in int8" in line and reason in line
    opened = check(made, {"x": random(4, 8)}, **options)
    assert [*nodes_of(opened)] == [NAME]


def test_operators_are_left_out():
    made, _ = linear()
    of_onnx = {schema.name for schema in onnx.defs.get_all_schemas()} - {"Gemm"}
    for names in ("Relu", " Relu , FastGelu,MyOwn", ",".join(sorted(of_onnx))):
        opened = check(made, {"x": random(2, 8)}, op_types_to_exclude=names)
        assert nodes_of(opened)[CPU] == [["Relu"]]


def test_the_environment_gives_the_level(monkeypatch, tmp_path):
    """Where no option does."""
    made = linear()[0].SerializeToString()
    provider_tests.register()

    def opened(**options):
        options = {"min_subgraph_size": "1", "engine_cache_path": str(tmp_path), **options}
        onnxruntime.InferenceSession(made, providers=[(NAME, options), CPU], enable_fallback=0)

    monkeypatch.setenv("TORCH_VULKAN_OPTIMIZATION_LEVEL", "x")
    text = "environment variable TORCH_VULKAN_OPTIMIZATION_LEVEL: got 'x', want 0 to 5"
    with pytest.raises(Exception, match=text):
        opened()
    monkeypatch.setenv("TORCH_VULKAN_OPTIMIZATION_LEVEL", "0")
    opened()
    level_0 = entries(tmp_path)
    opened(builder_optimization_level="0")
    assert entries(tmp_path) == level_0
    opened(builder_optimization_level="1")
    assert entries(tmp_path) > level_0


def test_profile_shapes():
    made, _ = linear()
    opened = check(made, {"x": random(3, 8)}, profile_min_shapes="x:2x8",
                   profile_opt_shapes="x:4x8", profile_max_shapes="x:6x8")
    with pytest.raises(Exception, match='input "x" dimension 0: got 7, want 2 to 6'):
        opened.run(None, {"x": random(7, 8)})
    check(made, {"x": random(6, 8)}, opened)


@pytest.mark.parametrize("options, message", [
    ({"fp16_enabel": 1}, "unknown option 'fp16_enabel'; did you mean 'fp16_enable'"),
    ({"colour": "red"}, "unknown option 'colour'"),
    ({"fp16_enable": "maybe"}, "option fp16_enable: got 'maybe', want 1 or 0"),
    ({"fp16_enable": 1, "bf16_enable": 1}, "another precision is given"),
    ({"bf16_enable": 1, "enabled_precisions": "float16"}, "option bf16_enable: enabled_precisions"),
    ({"fp16_enable": 1, "enabled_precisions": "bfloat16"}, "another precision is given"),
    ({"max_workspace_size": 1 << 20, "workspace_size": 1 << 21},
     "option max_workspace_size: workspace_size, which means the same, is given, too"),
    ({"min_block_size": 2}, "option min_subgraph_size: min_block_size, which means the same"),
    ({"engine_cache_path": "/tmp/a", "engine_cache_dir": "/tmp/b"}, "option engine_cache_path: "),
    ({"engine_cache_enable": 0, "reuse_cached_engines": 1}, "option engine_cache_enable: "),
    ({"builder_optimization_level": 9}, "option builder_optimization_level: got 9, want an integer "
                                        "from 0 to 5"),
    ({"min_subgraph_size": 0}, "option min_subgraph_size: got 0, want a whole number from 1"),
    ({"autocast_excluded_nodes": "(", "fp16_enable": 1}, 'option autocast_excluded_nodes: got "("'),
    ({"ep_context_embed_mode": 7}, "option ep_context_embed_mode: got '7', want 1 or 0"),
    ({"max_workspace_size": "1GB"}, "option max_workspace_size: got '1GB', want a whole number"),
    ({"device_id": "gpu"}, "option device_id: got 'gpu'"),
    ({"device": "no such device"}, "no such device"),
    ({"dla_enable": 1}, "option dla_enable: there are no such cores"),
    ({"int8_enable": 1, "enabled_precisions": "int8"}, "option int8_enable: enabled_precisions"),
    ({"calibration": "ranges.txt"}, "option calibration: it needs int8_enable=1"),
    ({"int8_enable": 1, "calibration": "no such table"}, "no such table"),
    ({"require_full_compilation": 1}, "session.disable_cpu_ep_fallback"),
    ({"dryrun": 1}, "it is for PyTorch's models"),
    ({"profile_max_shapes": "x:1x8"}, "want the same inputs"),
    ({"profile_min_shapes": "x:9x8", "profile_opt_shapes": "x:4x8", "profile_max_shapes": "x:6x8"},
     "want min ≤ opt ≤ max"),
    ({f"profile_{end}_shapes": "zz:1x8" for end in ("min", "opt", "max")},
     'the model has no input "zz"; it has x'),
    ({f"profile_{end}_shapes": "x:1x8x8" for end in ("min", "opt", "max")},
     'input "x" has rank 2; got 3 sizes'),
    ({f"profile_{end}_shapes": "x:1x9" for end in ("min", "opt", "max")}, 'input "x"'),
    ({"profile_max_shapes": "x=8"}, "option profile_max_shapes: got 'x=8', want NAME:SIZExSIZE…, "
                                    "such as x:"),
    ({"trt_fp16_enable": 1}, "option 'trt_fp16_enable'; write it without trt_: fp16_enable"),
    ({"external_data_bytestream": 1}, "option external_data_bytestream: weights are those that"),
    ({"external_data_bytestream_size": 1}, "weights are those that ONNX Runtime has"),
    ({"load_user_initializer": 1}, "option load_user_initializer: weights are those that"),
    ({"op_types_to_exclude": "Relu,Sofmax"}, "option op_types_to_exclude: got 'Sofmax', want types "
                                             "of operators; did you mean 'Softmax'?"),
    ({"enabled_precisions": "float64"}, "want names of float32, float16, bfloat16 and int8"),
    ({"enabled_precisions": ""}, "enabled_precisions: got [], want names"),
    ({"extra_plugin_lib_paths": "/tmp"}, "/tmp is a directory, want the file of a library"),
    ({"extra_plugin_lib_paths": "/no/such/library.so"}, "/no/such/library.so")])
def test_bad_options(options, message):
    with pytest.raises(Exception) as caught:
        session(linear()[0], **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("options", [
    {"int8_enable": 0, "dla_enable": "False", "sparsity_enable": "false",
     "cuda_graph_enable": "0", "dump_ep_context_model": 0, "force_timing_cache": False},
    {"fp16_enable": 0, "bf16_enable": 1}, {"fp16_enable": 0, "enabled_precisions": "float16"}])
def test_flags_that_are_off(options):
    assert [*nodes_of(session(linear()[0], **options))] == [NAME]
    with pytest.raises(Exception, match="option int8_enable: got 'maybe'"):
        session(linear()[0], int8_enable="maybe")


def alone(key, text):
    """A session with one option."""
    provider_tests.register()
    return onnxruntime.InferenceSession(linear()[0].SerializeToString(),
                                        providers=[(NAME, {key: str(text)}), CPU],
                                        enable_fallback=0)


def test_no_option_of_the_table_is_unknown(tmp_path):
    """Each is read by its kind, or says why it is not taken."""
    from torch_vulkan._native import C

    rows = {row["name"]: row["kind"] for row in C.setting_rows() if row["of_user"]}
    paths = {name for name, kind in rows.items() if kind in ("File", "Directory")}
    lists = {"autocast_excluded_nodes", "autocast_excluded_ops"}
    assert {"engine_cache_dir", "timing_cache_path"} == paths and len(rows) > 15
    for name in set(rows) - paths - lists - {"device"}:
        with pytest.raises(Exception, match=rf"option {name}\b|\b{name}: got \W+no such"):
            alone(name, "no such value")
    for name in sorted(paths):
        alone(name, tmp_path / name)
    for name in lists:
        with pytest.raises(Exception, match="need .* enabled_precisions with a 16-bit dtype"):
            alone(name, "Softmax,TopK")
        session(linear()[0], **{name: "Softmax,TopK", "enabled_precisions": "float16"})


def test_a_runtime_that_is_too_old():
    """The table that a library is given has functions of the oldest API first."""
    import ctypes
    text, get = ctypes.c_char_p, ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    said = []
    create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, text)(
        lambda code, message: said.append((code, message.decode())) or 1)
    oldest = (ctypes.c_void_p * 1)(ctypes.cast(create, ctypes.c_void_p).value)
    get_api = get(lambda version: ctypes.addressof(oldest) if version == 1 else None)
    get_version = ctypes.CFUNCTYPE(ctypes.c_void_p)(
        lambda: ctypes.cast(version, ctypes.c_void_p).value)
    version = text(b"1.22.1")
    base = (ctypes.c_void_p * 2)(ctypes.cast(get_api, ctypes.c_void_p).value,
                                 ctypes.cast(get_version, ctypes.c_void_p).value)
    library = ctypes.CDLL(provider_tests.vulkan.get_library_path())
    library.CreateEpFactories.restype = ctypes.c_void_p
    number = ctypes.c_size_t(7)
    assert library.CreateEpFactories(b"", base, None, (ctypes.c_void_p * 1)(), ctypes.c_size_t(1),
                                     ctypes.byref(number)) == 1
    assert number.value == 0
    assert said == [(9, f"{NAME}: this is ONNX Runtime 1.22.1; want 1.23 or newer")]
