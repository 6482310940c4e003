"""Every setting: what it does, and what is said about a bad one."""

import dataclasses
import importlib.util
import json
import math
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._base.setting_checks import ROWS
from torch_vulkan._base.settings import Settings
from torch_vulkan._fx import engine_call
from torch_vulkan._native import C

from helpers import assert_same, check, engines, vulkan


def chain(x):
    return torch.relu(x * 2 + 1) - 0.5


def run(function, *args, **options):
    """The result of `function` compiled with these options alone, and the records."""
    compilations.clear()
    with torch.no_grad():
        got = torch.compile(function, backend="vulkan", options=options or None)(*args)
    return got, compilations.compilations()


def built_calls(function, *args, **options):
    calls = []
    with engine_call.collected(calls), torch.no_grad():
        got = vulkan(function, **options)(*args)
    return got, calls


@pytest.mark.parametrize("on_cuda", [False, True])
def test_the_compiler_is_told_of_cuda(on_cuda):
    """It counts what engines between CUDA's kernels cost (csrc/partition/partition.cpp)."""
    assert json.loads(Settings().compiler_json(on_cuda=on_cuda))["on_cuda"] is on_cuda


# --- names and values ---

@pytest.mark.parametrize("name, message", [
    ("min_block_sise", "did you mean 'min_block_size'"),
    ("optimisation_level", "did you mean 'optimization_level'"),
    ("max_autotune", "here: optimization_level=5"),
    ("triton.cudagraphs", "one recorded submission"),
    ("zzz", "Allowed: .*autocast_excluded_nodes"),
])
def test_unknown_name(name, message):
    with pytest.raises(ValueError, match=message):
        Settings.from_options({name: 1})
    with pytest.raises(ValueError, match=message):
        run(chain, torch.randn(3), **{name: 1})


@pytest.mark.parametrize("name, value, message", [
    ("device", 1.5, "an index into tv.devices"),
    ("min_block_size", 0, "an integer from 1 up, or math.inf"),
    ("min_block_size", "5", "an integer from 1 up"),
    ("torch_executed_ops", "aten::relu", "a collection of operators"),
    ("torch_executed_ops", [3], "torch.ops.aten.relu"),
    ("require_full_compilation", 1, "True or False"),
    ("pass_through_build_failures", "yes", "True or False"),
    ("truncate_long_and_double", None, "True or False"),
    ("sparse_weights", "2:4", "True or False"),
    ("enabled_precisions", {torch.int8}, "needs calibration="),
    ("calibration", 3, "a path or None"),
    ("calibration", "no such file", "the path of a calibration cache"),
    ("calibration", __file__, "line 1: got"),
    ("enabled_precisions", {torch.float64}, "a set of torch.float32"),
    ("enabled_precisions", torch.float16, "a set of torch.float32"),
    ("enable_autocast", 1, "True or False"),
    ("autocast_low_precision_type", torch.float32, "torch.float16, torch.bfloat16"),
    ("autocast_excluded_nodes", ["("], "a regular expression"),
    ("autocast_excluded_ops", "mm", "a collection of operators"),
    ("use_explicit_typing", False, "needs enabled_precisions"),
    ("use_python_runtime", "yes", "True or False"),
    ("use_fp32_acc", 0, "True or False"),
    ("disable_tf32", 0, "True or False"),
    ("allow_transformed_convolutions", "winograd", "True or False"),
    ("check_indices", 1, "True or False"),
    ("matrix_units", 1, "True or False"),
    ("optimization_level", 6, "an integer from 0 to 5"),
    ("optimization_level", True, "an integer from 0 to 5"),
    ("tuning_seconds", -2, "an integer from -1 up"),
    ("tuning_seconds", 0.5, "an integer from -1 up"),
    ("background_tuning", 1, "True or False"),
    ("workspace_size", -1, "an integer from 0 up"),
    ("weight_budget", -3, "an integer from -2 up"),
    ("weight_budget", "1GB", "an integer from -2 up"),
    ("cache_built_engines", 0, "True or False"),
    ("reuse_cached_engines", 0, "True or False"),
    ("engine_cache_dir", 3, "a path or None"),
    ("engine_cache_size", 0, "an integer from 1 up"),
    ("engine_cache_dir", __file__, "the path of a directory, not of a file"),
    ("timing_cache_path", 3, "a path or None"),
    ("timing_cache_path", "/", "the path of a file, not of a directory"),
    ("immutable_weights", 0, "True or False"),
    ("dryrun", 3, "a path or None"),
    ("debug", 3, "a path or None"),
    ("progress", 1, "True or False"),
])
def test_bad_value(name, value, message):
    with pytest.raises(ValueError, match=message):
        Settings.from_options({name: value})


def test_settings_that_contradict():
    low = {torch.float32, torch.float16}
    for options in ({"enabled_precisions": low, "use_explicit_typing": True},
                    {"autocast_low_precision_type": torch.float16},
                    {"autocast_excluded_ops": ["aten::relu"]}):
        with pytest.raises(ValueError, match="want one|need"):
            Settings.from_options(options)


# --- effects ---

@pytest.mark.setting("device")
def test_device(device):
    x = torch.randn(4, 5)
    for spec in (0, device.name[:6].lower(), device.uuid):
        got, records = run(chain, x, device=spec, min_block_size=1)
        assert_same(got, chain(x))
        assert engines(records) == 1
    with pytest.raises(ValueError, match="no such card"):
        run(chain, x, device="no such card", min_block_size=1)


@pytest.mark.setting("min_block_size")
def test_min_block_size():
    x = torch.randn(4, 5)
    for size, count in ((1, 1), (4, 1), (5, 0), (math.inf, 0)):
        got, records = run(chain, x, min_block_size=size)
        assert_same(got, chain(x))
        assert engines(records) == count, size
    assert engines(run(chain, x)[1]) == 0  # the default is 5


@pytest.mark.parametrize("operator", [
    torch.ops.aten.relu, torch.ops.aten.relu.default, "aten::relu", "aten.relu", "relu",
    "torch.ops.aten.relu.default"])
@pytest.mark.setting("torch_executed_ops")
def test_torch_executed_ops(operator):
    records = check(chain, torch.randn(4, 5), torch_executed_ops=[operator])
    assert [n.op for n in records[0].native] == ["aten::relu"]
    assert "torch_executed_ops" in records[0].native[0].reason


@pytest.mark.parametrize("operator", [torch.ops.aten.mul, torch.ops.aten.mul.Tensor])
def test_torch_executed_ops_of_a_number(operator):
    def function(x):
        return torch.relu(x * 2) + 1

    records = check(function, torch.randn(4, 5), torch_executed_ops=[operator])
    assert [n.op for n in records[0].native] == ["aten::mul.Tensor"]


@pytest.mark.setting("require_full_compilation")
def test_require_full_compilation():
    x = torch.randn(4, 4)
    got, records = run(chain, x, require_full_compilation=True)  # min_block_size does not count
    assert engines(records) == 1
    message = r"(?s)in no engine.*linalg_matrix_exp.*no converter.*test_settings"
    with pytest.raises(ValueError, match=message):
        run(lambda t: chain(torch.linalg.matrix_exp(chain(t))), x, require_full_compilation=True)


@pytest.mark.setting("truncate_long_and_double")
def test_truncate_long_and_double():
    def function(x, i):
        return chain(x), i * 3 + 1

    x, i = torch.randn(4, 5, dtype=torch.float64), torch.arange(5)
    _, records = run(function, x, i, min_block_size=1)
    assert records[0].coverage < 1
    (y, j), records = run(function, x, i, min_block_size=1, truncate_long_and_double=True)
    assert records[0].coverage == 1
    assert y.dtype == torch.float64 and j.dtype == torch.int64
    torch.testing.assert_close(y, chain(x), rtol=1e-6, atol=1e-6)
    assert not torch.equal(y, chain(x)), "it is computed in float32"
    assert torch.equal(j, i * 3 + 1)


@pytest.mark.parametrize("function", [
    lambda x: (x.argmax(1), x.max(1), x.amin(0)),
    lambda x: x.cummax(1),
    lambda x: functional.max_pool2d(x[None, None], 2, return_indices=True),
    lambda x: torch.ops.aten.nonzero_static(x > 0, size=9),
], ids=["argmax", "cummax", "max_pool", "nonzero"])
def test_indices_that_are_made_are_truncated(function):
    x = torch.randn(8, 6)
    got, records = run(function, x, min_block_size=1, pass_through_build_failures=True,
                       truncate_long_and_double=True)
    assert records[0].coverage == 1
    torch.testing.assert_close(got, function(x))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.setting("workspace_size", "pass_through_build_failures")
def test_workspace_size(dynamic):
    """Sizes without an upper bound leave the kernels that there are; what is more than the limit is
    an error that says so, or runs natively."""
    def compiled(function, **options):
        return torch.compile(function, backend="vulkan", dynamic=dynamic,
                             options={"min_block_size": 1, **options})

    def mean(x):
        return torch.relu(x).mean((2, 3))

    x = torch.randn(2, 3, 9, 11)
    got = compiled(mean, workspace_size=1 << 20, pass_through_build_failures=True)(x)
    torch.testing.assert_close(got, mean(x))
    if dynamic:
        return
    y = torch.randn(5, 70000)  # more than a GPU's shared memory holds
    with pytest.raises(Exception, match="workspace_size is 1: raise it"):
        compiled(lambda y: y.topk(3), workspace_size=1, pass_through_build_failures=True)(y)
    model, whole = nn.Module(), {"workspace_size": 1, "require_full_compilation": True}
    model.forward = lambda y: y.topk(3)
    for build in (lambda: compiled(model, **whole)(y), lambda: tv.compile(model, [y], **whole)):
        with pytest.raises(ValueError, match="was not built: .*workspace_size is 1: raise it"):
            build()
    with pytest.warns(UserWarning, match="workspace_size is 1: raise it"):
        got = compiled(lambda y: y.topk(3), workspace_size=1)(y)
    torch.testing.assert_close(got, y.topk(3))


def test_bytes_of_64_bits_are_not_truncated():
    x = torch.randn(4, 6, dtype=torch.float64)
    got, records = run(lambda t: t.view(torch.int64) & 255, x, min_block_size=1,
                       truncate_long_and_double=True)
    assert torch.equal(got, x.view(torch.int64) & 255)
    (native,) = records[0].native
    assert native.op == "aten::view.dtype" and "holds in 4 of 8" in native.reason


def test_truncated_weights():
    model = nn.Linear(5, 3).double().requires_grad_(False)
    x = torch.randn(4, 5, dtype=torch.float64)
    got, records = run(model, x, min_block_size=1, truncate_long_and_double=True)
    assert records[0].coverage == 1 and got.dtype == torch.float64
    torch.testing.assert_close(got, model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.setting("use_python_runtime")
def test_use_python_runtime():
    with pytest.warns(UserWarning, match="use_python_runtime has no effect"):
        Settings.from_options({"use_python_runtime": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Settings.from_options({"use_python_runtime": None})


def test_use_fp32_acc_and_tf32_reach_the_compiler():
    text = json.loads(Settings.from_options(
        {"use_fp32_acc": False, "disable_tf32": False, "workspace_size": 5,
         "optimization_level": 1}).compiler_json())
    assert (text["use_fp32_acc"], text["disable_tf32"], text["workspace_size"],
            text["optimization_level"]) == (False, False, 5, 1)


@pytest.mark.setting("check_indices")
def test_indices_are_checked_or_not():
    def function(x, i):
        return x.gather(0, i) + 1

    x, i = torch.randn(3, 4), torch.tensor([[0, 7, 1, 2]])
    with pytest.raises(RuntimeError, match="index 7 is out of bounds"):
        run(function, x, i, min_block_size=1)
    got, _ = run(function, x, i, min_block_size=1, check_indices=False)
    assert got.shape == (1, 4)


@pytest.mark.parametrize("options", [
    {"use_fp32_acc": False}, {"disable_tf32": False}, {"check_indices": False},
    {"matrix_units": False}, {"optimization_level": 0}, {"optimization_level": 5},
    {"workspace_size": 1 << 20}])
@pytest.mark.setting("use_fp32_acc")
def test_results_hold_for_every_choice(options):
    model = nn.Linear(16, 8).requires_grad_(False)
    x = torch.randn(4, 16)
    torch.testing.assert_close(run(model, x, min_block_size=1, **options)[0], model(x))


@pytest.mark.setting("tuning_seconds", "timing_cache_path")
def test_tuning_seconds(tmp_path):
    """0: nothing is timed, and what the cache of timings has is taken all the same."""
    def tuned(seconds, timings):
        C.reset_tuner_stats()
        run(torch.mm, torch.randn(32, 64), torch.randn(64, 48), min_block_size=1,
            optimization_level=5, tuning_seconds=seconds, timing_cache_path=tmp_path / timings,
            cache_built_engines=False, reuse_cached_engines=False)
        torch._dynamo.reset()
        stats = C.tuner_stats()
        return stats["timed"] > 0, stats["cut"] > 0, stats["cached"] > 0

    assert tuned(0, "a.json") == (False, True, False)
    assert tuned(-1, "a.json") == (True, False, False)
    assert tuned(0, "a.json") == (False, False, True)
    assert tuned(600, "b.json") == (True, False, False)


def test_cache_directory(tmp_path):
    def function(x):
        return torch.relu(x * 1.25 + 0.75) - 0.125

    x = torch.randn(4, 5)
    off = {"cache_built_engines": False, "reuse_cached_engines": False}
    for options in ({"cache_built_engines": False}, off):
        run(function, x, min_block_size=1, engine_cache_dir=tmp_path / "off", **options)
        assert not (tmp_path / "off").exists()
        torch._dynamo.reset()

    def kernels(**options):
        return json.loads(Settings.from_options(options).compiler_json())["cache_dir"]

    assert kernels() and not kernels(**off)
    assert kernels(engine_cache_dir=tmp_path) == str(tmp_path)


@pytest.mark.setting("engine_cache_dir")
def test_engine_cache_dir_holds_kernels_and_the_log_tells_of_each(tmp_path, device):
    import os
    import subprocess
    import sys

    program = ("import torch; from torch import nn\n"
               "import torch_vulkan\n"
               "f = torch.compile(lambda x: torch.relu(x) * 2, backend='vulkan', options={"
               f"'min_block_size': 1, 'engine_cache_dir': {str(tmp_path / 'kernels')!r}}})\n"
               "with torch.no_grad(): print(f(torch.ones(3)))\n")
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          env=os.environ | {"TORCH_VULKAN_LOG": "debug"})
    assert done.returncode == 0, done.stderr
    assert any(path.is_file() for path in (tmp_path / "kernels").rglob("*"))
    if device.type == "cpu":  # its driver compiles when a kernel first runs
        assert "[driver] relu" in done.stderr and " by pointwise" in done.stderr


def test_timing_cache_path_and_size_are_kept(tmp_path):
    settings = Settings.from_options({"timing_cache_path": tmp_path / "t",
                                      "engine_cache_size": 1 << 20})
    assert settings.timing_cache_path == str(tmp_path / "t")
    assert settings.engine_cache_size == 1 << 20


@pytest.mark.setting("dryrun")
def test_dryrun(tmp_path, capfd):
    x = torch.randn(4, 4)

    def function(t):
        return chain(torch.linalg.matrix_exp(chain(t)))

    got, records = run(function, x, dryrun=True, min_block_size=1)
    assert_same(got, function(x))
    assert engines(records) == 0
    text = capfd.readouterr().out
    assert "2 engines" in text and "linalg_matrix_exp" in text and "no converter" in text
    assert "recommended min_block_size: 1" in text
    run(function, x, dryrun=tmp_path / "report.json", min_block_size=1)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["compute_nodes"] > report["covered_nodes"] > 0
    (graph,) = report["graphs"]
    assert len(graph["engines"]) == report["engines"] == 2
    engine = graph["engines"][0]
    assert sum(engine["operators"].values()) == engine["nodes"] >= engine["compute_nodes"]
    assert engine["inputs"][0]["shape"] == [4, 4]
    assert report["min_block_size"][0]["engines"] == 2
    assert report["min_block_size"][-1]["covered_nodes"] == 0
    (native,) = [n for n in graph["native"] if "linalg_matrix_exp" in n["operator"]]
    assert native["source"].startswith("test_settings.py:")


@pytest.mark.setting("debug")
def test_debug(tmp_path, capfd):
    run(chain, torch.randn(3), debug=str(tmp_path), min_block_size=1)
    assert str(tmp_path) in capfd.readouterr().out
    assert any(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.setting("progress")
def test_progress(capfd):
    run(chain, torch.randn(3), min_block_size=1, progress=True)
    assert "engine_0: built in" in capfd.readouterr().err
    torch._dynamo.reset()
    run(chain, torch.randn(3), min_block_size=1)
    assert "engine_0" not in capfd.readouterr().err


def test_pages_and_fields_are_the_table_s():
    """`scripts/settings_page.py` writes them."""
    path = Path(__file__).parents[3] / "scripts" / "settings_page.py"
    spec = importlib.util.spec_from_file_location("settings_page", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    unbounded = ROWS["optimization_level"]._replace(high=2**63 - 1)
    assert script.values(unbounded) == "`int, 0 up`"
    assert script.values(ROWS["weight_budget"]) == "`int, -2 up`"
    for file, made in script.WRITTEN:
        assert made(file.read_text()) == file.read_text(), f"run {path.name}"
    # What it compares is there: every setting once in the page, and as an attribute.
    page = script.PAGE.read_text()
    for name, row in ROWS.items():
        assert page.count(f"\n| `{name}` |") == 1, name
        assert getattr(Settings(), name) == row.default or row.variable, name
    assert [field.name for field in dataclasses.fields(Settings)] == [*ROWS]


def test_every_setting_is_asked_for_a_bad_value():
    (cases,) = [mark.args[1] for mark in test_bad_value.pytestmark if mark.name == "parametrize"]
    assert {name for name, _, _ in cases} == {*ROWS}


def settings_shown():
    """Names in the marks `setting` of tests, and in the comments of C++ tests that say the same;
    each is used in its file beside the mark."""
    marks = re.compile(r"^@pytest\.mark\.setting\(([^)]*)\)|// Shows setting: (\w+)$", re.M)
    tests = Path(__file__).parents[2]
    for path in (*tests.rglob("test_*.py"), *tests.rglob("test_*.cpp")):
        text = path.read_text()
        others = marks.sub("", text)
        for mark in marks.finditer(text):
            for name in re.findall(r"\w+", mark[1] or mark[2]):
                assert re.search(rf"\b{name}\b", others), f"{path.name} does not use {name}"
                yield name


def test_every_setting_has_a_test_that_shows_its_effect():
    """A test with the mark `setting`, wherever it is."""
    shown = [*settings_shown()]
    assert sorted(shown) == sorted(ROWS), {*shown} ^ {*ROWS}


def test_the_environment_s_default(monkeypatch):
    monkeypatch.setenv("TORCH_VULKAN_OPTIMIZATION_LEVEL", "1")
    assert Settings.from_options({}).optimization_level == 1
    assert Settings.from_options({"optimization_level": 4}).optimization_level == 4
    for text in ("6", "-1", "three", "²"):
        monkeypatch.setenv("TORCH_VULKAN_OPTIMIZATION_LEVEL", text)
        with pytest.raises(ValueError, match=f"_LEVEL: got '{text}', want 0 to 5"):
            Settings.from_options({})


def test_the_compiler_gets_what_it_reads():
    """Its rows and the cache's, but for what this package does itself."""
    settings = Settings.from_options({"torch_executed_ops": ["aten::relu"], "min_block_size": 2})
    text = json.loads(settings.compiler_json())
    own = {"tactics", "check_addresses"}
    rows = C.setting_rows()
    assert {*text} == {row["name"] for row in rows if row["scope"] == "compiler"} - own
    assert text["torch_executed_ops"] == ["aten::relu"] and text["min_block_size"] == 2
    assert {*json.loads(settings.cache_json())} == {
        row["name"] for row in rows if row["scope"] == "cache"}
    C.check_settings(settings.compiler_json())


def test_defaults_are_documented():
    assert Settings.from_options(None) == Settings()
    assert Settings() == Settings.from_options({})
    assert tv.supported_ops()
