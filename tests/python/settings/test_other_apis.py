"""What users bring along from other backends: names, modes, signatures, options."""

import io
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._base import progress
from torch_vulkan._base.settings import Settings
from torch_vulkan._dynamo import registration

from helpers import assert_same

LOW = {torch.float32, torch.float16}


@pytest.fixture(scope="module")
def program():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval().requires_grad_(False)
    return tv.compile(model, [tv.Input(min_shape=(1, 4), opt_shape=(2, 4), max_shape=(5, 4))],
                      min_block_size=1)


# --- torch.compile ---

def test_both_names_are_one_backend():
    from torch._dynamo.backends.registry import lookup_backend

    assert [lookup_backend(name) for name in registration.NAMES] == [
        lookup_backend("vulkan")] * len(registration.NAMES)
    assert {"vulkan", "torch_vulkan"} <= {*torch._dynamo.list_backends()}
    x = torch.randn(3)
    compilations.clear()
    got = torch.compile(lambda t: torch.relu(t) * 2, backend="torch_vulkan",
                        options={"min_block_size": 1})(x)
    assert_same(got, torch.relu(x) * 2)
    assert len(compilations.compilations()[0].engines) == 1


def test_the_backend_is_found_without_an_import():
    """By the entry points that are installed; those of an older installation, too."""
    program = ("import torch; f = torch.compile(torch.relu, backend='vulkan', options="
               "{'min_block_size': 1}); print(f(torch.full((2,), -3.)).sum().item())")
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True)
    assert done.stdout == "0.0\n", done.stderr


@pytest.mark.parametrize("mode, level", [
    ("default", 3), ("reduce-overhead", 3), ("max-autotune", 5), ("max-autotune-no-cudagraphs", 5)])
def test_mode(mode, level):
    assert Settings.from_options({"mode": mode}) == Settings.from_options(
        {"optimization_level": level} if level != 3 else {})


def test_mode_through_torch_compile():
    compilations.clear()
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(5)]).requires_grad_(False)
    x = torch.randn(2, 3)
    torch.testing.assert_close(torch.compile(model, backend="vulkan", mode="reduce-overhead")(x),
                               model(x))
    assert len(compilations.compilations()[0].engines) == 1


def test_bad_modes():
    with pytest.raises(ValueError, match="setting mode: got 'fastest', want 'default' or 'reduce"):
        Settings.from_options({"mode": "fastest"})
    with pytest.raises(ValueError, match="mode means optimization_level=5; got .*=1"):
        Settings.from_options({"mode": "max-autotune", "optimization_level": 1})
    assert Settings.from_options({"mode": "default", "optimization_level": 1}
                                 ).optimization_level == 1


@pytest.mark.parametrize("given, enabled", [
    (torch.float16, LOW), ({torch.float16}, LOW), (LOW, LOW), (torch.float32, {torch.float32}),
    (torch.bfloat16, {torch.float32, torch.bfloat16}), ("fp16", LOW), ("float16", LOW),
    ("fp32", {torch.float32}), ("bf16", {torch.float32, torch.bfloat16})])
def test_precision(given, enabled):
    assert Settings.from_options({"precision": given}) == Settings.from_options(
        {"enabled_precisions": enabled})


@pytest.mark.parametrize("name, here", [
    ("ir", "nothing"), ("arg_inputs", "inputs"), ("workspace", "workspace_size"),
    ("fp16", "precision=torch.float16"), ("truncate_double", "truncate_long_and_double")])
def test_names_of_torch_tensorrt(name, here):
    with pytest.raises(ValueError, match=f"'{name}', another backend's; here: {here}"):
        tv.compile(nn.Linear(2, 2), inputs=[torch.ones(1, 2)], **{name: 1})


def test_a_misspelt_alias():
    with pytest.raises(ValueError, match="'precison'; did you mean 'precision'"):
        Settings.from_options({"precison": torch.float16})


def test_bad_precision():
    with pytest.raises(ValueError, match="setting precision: got 'fp8', want .*'fp16'"):
        Settings.from_options({"precision": "fp8"})
    with pytest.raises(ValueError, match="setting precision.*a set of torch.float32"):
        Settings.from_options({"precision": torch.float64})
    with pytest.raises(ValueError, match="precision means enabled_precisions"):
        Settings.from_options({"precision": torch.float16, "enabled_precisions": {torch.bfloat16}})


@pytest.mark.parametrize("name", ["frobnicate", "size", "shape", "blocks", "level"])
def test_a_name_that_is_near_to_none_has_none_proposed(name):
    with pytest.raises(ValueError, match=f"unknown setting '{name}'\\. Allowed: ") as error:
        Settings.from_options({name: 1})
    assert "did you mean" not in str(error.value)


# --- files ---

def test_save_takes_examples(program, tmp_path):
    x = torch.randn(2, 4)
    for name, given in (("a.pt2", {"inputs": [x]}), ("b.pt2", {"arg_inputs": (x,)}),
                        ("c.pt2", {"inputs": [tv.Input((2, 4))], "kwarg_inputs": {}})):
        tv.save(program, tmp_path / name, **given)
        assert_same(tv.load(tmp_path / name)(x), program(x))
    with pytest.raises(ValueError, match="got 9"):
        tv.save(program, tmp_path / "d.pt2", inputs=[torch.randn(9, 4)])
    with pytest.raises(ValueError, match="want one of them"):
        tv.save(program, tmp_path / "d.pt2", inputs=[x], arg_inputs=[x])
    assert not (tmp_path / "d.pt2").exists()


@pytest.mark.parametrize("suffix, instead", [
    (".onnx", "torch.onnx.export"), (".vke", r"tv.engines\(program\)\[0\].save"),
    (".safetensors", "save_file")])
def test_save_refuses_names_of_other_files(program, tmp_path, suffix, instead):
    with pytest.raises(ValueError, match=f"saved as .pt2 or .pt; .*{instead}"):
        tv.save(program, tmp_path / f"z{suffix}")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name, is_script", [
    ("z.pt", True), ("z.ts", True), ("z.PT2", False), ("z.ep", False)])
def test_the_suffix_says_the_format(program, tmp_path, name, is_script):
    x = torch.randn(2, 4)
    tv.save(program, tmp_path / name)
    read = torch.jit.load if is_script else lambda path: torch.export.load(path).module()
    assert_same(read(tmp_path / name)(x), program(x))
    assert_same(tv.load(tmp_path / name)(x), program(x))


@pytest.mark.parametrize("name", ["z", "z.bin", "z.1"])
def test_a_suffix_that_says_no_format(program, tmp_path, name):
    with pytest.raises(ValueError, match="want .pt2 .* or .pt .*, or output_format="):
        tv.save(program, tmp_path / name)
    assert not [*tmp_path.iterdir()]
    tv.save(program, tmp_path / name, output_format="exported_program")
    x = torch.randn(2, 4)
    assert_same(tv.load(tmp_path / name)(x), program(x))


def test_torch_jit_save(program, tmp_path):
    x = torch.randn(2, 4)
    torch.jit.save(program, tmp_path / "net.pt")
    memory = io.BytesIO()
    torch.jit.save(program, memory)
    memory.seek(0)
    for loaded in (torch.jit.load(tmp_path / "net.pt"), torch.jit.load(memory),
                   tv.load(tmp_path / "net.pt")):
        assert_same(loaded(x), program(x))
    with pytest.raises(ValueError, match="no extra files"):
        torch.jit.save(program, tmp_path / "more.pt", _extra_files={"a": "b"})
    assert not (tmp_path / "more.pt").exists()


def test_reports_make_no_folders(tmp_path):
    report = tv.dry_run(nn.ReLU(), [torch.randn(3)])
    for write in (report.to_html, report.to_json, report.save):
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            write(tmp_path / "none" / "a.html")
    with pytest.raises(ValueError, match="a folder that exists"):
        Settings.from_options({"dryrun": str(tmp_path / "none" / "a.html")})
    assert not (tmp_path / "none").exists()


# --- inputs ---

def test_ranks_of_an_input():
    with pytest.raises(ValueError, match=r"different numbers of dimensions: min_shape \(1, 3\) has "
                                         r"2, opt_shape \(1, 3, 4\) has 3"):
        tv.Input(min_shape=(1, 3), opt_shape=(1, 3, 4), max_shape=(1, 3, 4))
    with pytest.raises(ValueError, match="dimension 1: got min_shape 3, opt_shape 2, max_shape 4"):
        tv.Input(min_shape=(1, 3), opt_shape=(1, 2), max_shape=(1, 4))


def test_profiles_of_a_builder():
    b = tv.Builder()
    x = b.input("x", (-1, 4))
    b.output("y", b.op("aten::relu", x))
    for shapes, message in (
            (((1, 3), (1, 4), (1, 5)), "dimension 1: got 3 to 5, want 4"),
            (((1,), (2,), (3,)), "got shapes of 1 dimensions, want 2")):
        with pytest.raises(ValueError, match=message):
            b.build(profiles=[tv.Profile(x=shapes)])
    engine = b.build(profiles=[tv.Profile(x=((1, 4), (2, 4), (3, 4))),
                               tv.Profile(x=((8, 4), (9, 4), (10, 4)))], optimization_level=0)
    with pytest.raises(ValueError, match=r"(?s)no shape profile takes.*profile 0: .*1 to 3.*"
                                         r"profile 1: .*8 to 10"):
        engine.run({"x": torch.randn(5, 4)})


# --- running ---

def test_memory_that_results_cannot_be_written_to():
    class Two(nn.Module):
        def forward(self, a, b):
            return a + b, (a * b).sum(1)

    program = tv.compile(Two(), [torch.ones(4, 4), torch.ones(4, 4)], min_block_size=1)
    (engine,) = tv.engines(program)
    names, buffer = [output["name"] for output in engine.info()["outputs"]], torch.zeros(20)
    fixed = np.zeros((4, 4), np.float32)
    fixed.flags.writeable = False
    for first, rest, message in (
            (fixed, {}, "read only"), (np.zeros((4, 4), np.float32)[::-1], {}, "negative"),
            (np.zeros((4, 4), ">f4"), {}, "byte order"),
            (buffer[:16].view(4, 4), {names[1]: buffer[14:18]}, "share memory")):
        with pytest.raises(ValueError, match=message):
            engine.run([torch.ones(4, 4)] * 2, out={names[0]: first, **rest})
    assert not fixed.any() and not buffer.any()
    good = {names[0]: buffer[:16].view(4, 4), names[1]: buffer[16:]}
    engine.run([torch.ones(4, 4)] * 2, out=good)
    assert buffer.tolist() == [2] * 16 + [4] * 4


def test_outputs_given_to_an_engine(program):
    (engine,) = tv.engines(program)
    x = torch.randn(3, 4)
    (name,) = want = engine.run([x])
    direct, strided = torch.empty(3, 3), torch.empty(3, 3).t()
    array = np.empty((3, 3), np.float32)
    for out in (direct, strided, array):
        for given in ({name: out}, [out]):
            got = engine.run([x], out=given)
            assert got[name] is out
            np.testing.assert_array_equal(np.asarray(out), np.asarray(want[name]))
            out[:] = 0
    with pytest.raises(ValueError, match=f"out '{name}': got torch.float32 \\[2, 3\\], want"):
        engine.run([x], out=[torch.empty(2, 3)])
    with pytest.raises(ValueError, match="no output 'z'"):
        engine.run([x], out={"z": direct})


def test_an_output_may_be_an_input():
    b = tv.Builder()
    b.output("y", b.op("aten::flip", b.input("x", (6,)), [0]))
    engine, x = b.build(optimization_level=0), torch.arange(6.)
    engine.run([x], out=[x])
    assert_same(x, torch.arange(5., -1, -1))


@pytest.fixture(scope="module")
def session():
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    return model, tv.onnx.compile(model)


def test_io_binding(session):
    _, model = session
    x = np.random.default_rng(0).standard_normal((2, 3), np.float32)
    y = np.empty_like(x)
    binding = model.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    model.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.maximum(x, 0))
    binding.clear_binding_outputs()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    for _ in range(2):
        x *= -1  # read at each run
        model.run_with_iobinding(binding)
        np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert binding.get_outputs()[0].ctypes.data == y.ctypes.data
    binding.bind_output("y", np.empty((1, 3), np.float32))
    with pytest.raises(ValueError, match="bound memory is"):
        model.run_with_iobinding(binding)
    with pytest.raises(ValueError, match="no input 'z'"):
        binding.bind_cpu_input("z", x)
    with pytest.raises(ValueError, match="device 'cuda', want 'cpu'"):
        binding.bind_output("y", "cuda")


def test_session_options(session):
    model, _ = session
    options = tv.onnx.SessionOptions()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tv.onnx.compile(model, sess_options=options)
    options.intra_op_num_threads = 4
    with pytest.warns(UserWarning, match="intra_op_num_threads have no effect"):
        tv.onnx.compile(model, sess_options=options)
    options.enable_profiling = True
    with pytest.raises(ValueError, match="tv.profile"):
        tv.onnx.compile(model, sess_options=options)
    with pytest.raises(AttributeError, match="has no 'threads'"):
        options.threads = 3
    runtime = pytest.importorskip("onnxruntime").SessionOptions()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tv.onnx.compile(model, sess_options=runtime)
    runtime.intra_op_num_threads = 2
    with pytest.warns(UserWarning, match="intra_op_num_threads"):
        tv.onnx.compile(model, sess_options=runtime)


# --- what is printed and listed ---

def test_progress_in_a_log_is_one_line(capsys):
    shown = progress.Progress("engine_0")
    for done in range(4):
        shown("tuning", done, 3)
    shown.close()
    text = capsys.readouterr().err
    assert "\r" not in text and text.count("\n") == 1 and "engine_0: built in" in text


def test_progress_on_a_terminal_is_drawn_anew(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = progress.Progress("engine_0")
    shown("tuning", 3, 3)
    shown.close()
    assert capsys.readouterr().err.count("\r") == 2


def test_complex_operators_go_by_their_names():
    def function(x):
        return torch.linalg.eig(x * 2)[0]

    x = torch.complex(torch.eye(3), torch.zeros(3, 3))
    text = str(tv.dry_run(function, [x], min_block_size=1))
    assert "no converter for aten::linalg_eig of complex values" in text
    assert "complex::" not in text


def test_only_public_names_are_listed():
    names = dir(tv)
    assert {"compile", "save", "load", "Builder", "profile", "cache", "onnx"} <= {*names}
    assert not {"aot", "backend", "importer", "splitting", "engine_call"} & {*names}
    assert all(hasattr(tv, name) for name in names)


def test_devices_command(device):
    run = [sys.executable, "-m", "torch_vulkan", "devices"]
    env = {**os.environ}
    text = subprocess.run(run, text=True, capture_output=True, check=True, env=env).stdout
    assert f"0: {device.name}" in text and device.uuid in text
    (first, *_) = json.loads(subprocess.run([*run, "--json"], text=True, capture_output=True,
                                            check=True, env=env).stdout)
    assert first["name"] == device.name
    assert tv.dry_run(nn.ReLU(), [torch.randn(3)], json.dumps(first["profile"]),
                      min_block_size=1).coverage == 1
