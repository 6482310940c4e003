"""vkexec --calibData: calibrates an ONNX file from a folder of batches, without Python."""

import math
import re
import signal
import subprocess
import time

import numpy as np
import pytest

import torch_vulkan as tv

from vkexec_helpers import ONCE, VKEXEC, run
from workloads.patience import patience

onnx = pytest.importorskip("onnx")
make = onnx.helper
FLOAT = onnx.TensorProto.FLOAT
QUICK = ("--builderOptimizationLevel=0", *ONCE)


def tensor(name, shape, dtype=FLOAT):
    return make.make_tensor_value_info(name, dtype, shape)


def weight(rng, name, *shape):
    return onnx.numpy_helper.from_array((rng.standard_normal(shape) / 3).astype("float32"), name)


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """A convolution and two products; of two inputs, one of them with a name that no file has."""
    rng = np.random.default_rng(0)
    nodes = [make.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
             make.make_node("Relu", ["c"], ["r"], "relu"),
             make.make_node("GlobalAveragePool", ["r"], ["g"], "pool"),
             make.make_node("Flatten", ["g"], ["f"], "flatten"),
             make.make_node("Gemm", ["f", "v"], ["p"], "gemm", transB=1),
             make.make_node("MatMul", ["side/in", "m"], ["q"], "matmul"),
             make.make_node("Add", ["p", "q"], ["y"], "add")]
    graph = make.make_graph(
        nodes, "net", [tensor("x", ["n", 3, 6, 5]), tensor("side/in", ["n", 7])],
        [tensor("y", ["n", 4])],
        [weight(rng, "w", 6, 3, 3, 3), weight(rng, "v", 4, 6), weight(rng, "m", 7, 4)])
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=9), path)
    return path


def batches(count=4, seed=1):
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal((2, 3, 6, 5)).astype("float32") * (i + 1),
             "side/in": rng.standard_normal((2, 7)).astype("float32")} for i in range(count)]


FILES = {"x": "x", "side/in": "side_in"}


def as_folders(folder, data, kind="npy"):
    """A folder for each batch."""
    for i, batch in enumerate(data):
        (folder / f"{i:03}").mkdir(parents=True)
        for name, array in batch.items():
            path = folder / f"{i:03}" / f"{FILES[name]}.{kind}"
            np.save(path, array) if kind == "npy" else array.tofile(path)
    return folder


def as_archives(folder, data, save=np.savez):
    folder.mkdir()
    for i, batch in enumerate(data):
        save(folder / f"{i:03}.npz", **batch)
    return folder


def calibrated(net, folder, cache, *flags, code=0):
    return run(f"--onnx={net}", "--int8", f"--calib={cache}", f"--calibData={folder}",
               "--shapes=x:2x3x6x5,side/in:2x7", *QUICK, *flags, code=code)


RANGES = {"x": (2, 3, 6, 5), "side/in": (2, 7)}


@pytest.mark.parametrize("method", ["entropy", "percentile", "mse", "minmax"])
def test_the_cache_is_tv_calibrates(net, tmp_path, method):
    """Byte for byte, and it is used at once."""
    data = batches()
    folder = as_folders(tmp_path / "data", data)
    percentile = {"percentile": 99.5} if method == "percentile" else {}
    tv.calibrate(str(net), data, method, tmp_path / "want.cache", inputs=RANGES, **percentile)
    flags = [f"--calibMethod={method}"] if method != "entropy" else []
    flags += [f"--calibPercentile={percentile['percentile']}"] if percentile else []
    said = calibrated(net, folder, tmp_path / "got.cache", *flags)
    assert (tmp_path / "got.cache").read_bytes() == (tmp_path / "want.cache").read_bytes()
    assert "Calibration: scales for 3 of 3 products and convolutions" in said
    assert f"ranges of 3 tensors, by {method}, saved as" in said
    assert not (tmp_path / "got.cache.partial").exists()


@pytest.mark.parametrize("flags, given", [
    (["--calibSmoothQuant"], {"smooth_quant": True}),
    (["--calibSmoothQuant=0.3"], {"smooth_quant": 0.3}),
    (["--calibSmoothQuant=0"], {"smooth_quant": 0}),
    (["--calibBiasCorrection"], {"bias_correction": True}),
    (["--calibBiasCorrection", "--calibSmoothQuant"],
     {"smooth_quant": True, "bias_correction": True})])
def test_the_cache_of_corrections_is_tv_calibrates(net, tmp_path, flags, given):
    """Byte for byte, and results differ from those without."""
    data = batches()
    folder = as_folders(tmp_path / "data", data)
    tv.calibrate(str(net), data, cache=tmp_path / "want.cache", inputs=RANGES, **given)
    np.save(tmp_path / "x.npy", data[0]["x"])
    np.save(tmp_path / "s.npy", data[0]["side/in"])
    load = f"--loadInputs=x:{tmp_path / 'x.npy'},side/in:{tmp_path / 's.npy'}"
    results = []
    for name, more in (("got", flags), ("plain", [])):
        (tmp_path / name).mkdir()
        calibrated(net, folder, tmp_path / f"{name}.cache", *more, load,
                   f"--exportOutput={tmp_path / name}")
        results.append(outputs(tmp_path / name))
    made = (tmp_path / "got.cache").read_bytes()
    assert made == (tmp_path / "want.cache").read_bytes() and b"#torch_vulkan " in made
    assert made.startswith((tmp_path / "plain.cache").read_bytes())
    assert not (results[0] == results[1]).all()


def test_channels_that_readers_disagree_about(tmp_path):
    """A convolution takes dimension 1 of a tensor for its channels, a product the last."""
    rng = np.random.default_rng(0)
    nodes = [make.make_node("Conv", ["x", "w"], ["c"], "conv"),
             make.make_node("MatMul", ["x", "m"], ["p"], "matmul"),
             make.make_node("MatMul", ["c", "v"], ["q"], "other")]
    graph = make.make_graph(
        nodes, "net", [tensor("x", [2, 3, 6, 5])],
        [tensor("p", [2, 3, 6, 4]), tensor("q", [2, 6, 6, 4])],
        [weight(rng, "w", 6, 3, 1, 1), weight(rng, "m", 5, 4), weight(rng, "v", 5, 4)])
    path = tmp_path / "net.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=9), path)
    data = [{"x": rng.standard_normal((2, 3, 6, 5)).astype("float32")} for _ in range(2)]
    given = {"smooth_quant": True, "bias_correction": True}
    want = tv.calibrate(str(path), data, "minmax", **given)
    assert {*want.channel_amax} == {*want.channel_means} == {"c"}
    folder = as_archives(tmp_path / "data", data)
    run(f"--onnx={path}", "--int8", f"--calib={tmp_path / 'c'}", f"--calibData={folder}",
        "--calibMethod=minmax", "--calibSmoothQuant", "--calibBiasCorrection", "--skipInference",
        "--builderOptimizationLevel=0")
    assert (tmp_path / "c").read_text() == want.to_text()


@pytest.mark.parametrize("flags, want", [
    ([], "neither --calibSmoothQuant nor --calibBiasCorrection"),
    (["--calibSmoothQuant=0.25", "--calibBiasCorrection"],
     "--calibSmoothQuant=0.25 and --calibBiasCorrection"),
    (["--calibSmoothQuant"], "--calibSmoothQuant=0.5")])
def test_a_cache_of_other_corrections(net, tmp_path, flags, want):
    folder = as_folders(tmp_path / "data", batches(1))
    cache = tmp_path / "net.cache"
    both = ["--calibSmoothQuant", "--calibBiasCorrection"]
    calibrated(net, folder, cache, *both)
    made = cache.read_bytes()
    said = calibrated(net, folder, cache, *flags, code=2)
    assert (f"--calib: {cache} is of --calibSmoothQuant=0.5 and --calibBiasCorrection, want {want}:"
            " remove it") in said
    assert "Calibrating" not in calibrated(net, folder, cache, *both)
    assert cache.read_bytes() == made


def outputs(folder):
    return np.load(folder / "y.npy")


def test_results_are_those_of_the_cache(net, tmp_path):
    data = batches()
    folder = as_archives(tmp_path / "data", data)
    np.save(tmp_path / "x.npy", data[0]["x"])
    np.save(tmp_path / "s.npy", data[0]["side/in"])
    load = f"--loadInputs=x:{tmp_path / 'x.npy'},side/in:{tmp_path / 's.npy'}"
    for out in ("first", "second", "floats"):
        (tmp_path / out).mkdir()
    calibrated(net, folder, tmp_path / "net.cache", load, f"--exportOutput={tmp_path / 'first'}")
    run(f"--onnx={net}", "--int8", f"--calib={tmp_path / 'net.cache'}", load, *QUICK,
        "--shapes=x:2x3x6x5,side/in:2x7", f"--exportOutput={tmp_path / 'second'}")
    run(f"--onnx={net}", load, *QUICK, "--shapes=x:2x3x6x5,side/in:2x7",
        f"--exportOutput={tmp_path / 'floats'}")
    first, second, floats = (outputs(tmp_path / out) for out in ("first", "second", "floats"))
    assert (first == second).all() and not np.allclose(first, floats, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(first, floats, atol=0.05 * np.abs(floats).max())


@pytest.mark.parametrize("kind", ["npy in the folder", "bin", "raw", "npz", "compressed npz"])
def test_kinds_of_files(net, tmp_path, kind):
    data = batches(1 if kind == "npy in the folder" else 3)
    folder = tmp_path / "data"
    if kind == "npy in the folder":
        folder = as_folders(folder, data) / "000"
    elif kind.endswith("npz"):
        as_archives(folder, data, np.savez if kind == "npz" else np.savez_compressed)
    else:
        as_folders(folder, data, kind)
    (folder / ".hidden").write_text("is no batch")
    (folder / "labels.txt").write_text("neither is this")
    tv.calibrate(str(net), data, "mse", tmp_path / "want.cache", inputs=RANGES)
    calibrated(net, folder, tmp_path / "got.cache", "--calibMethod=mse", "--skipInference")
    assert (tmp_path / "got.cache").read_bytes() == (tmp_path / "want.cache").read_bytes()


def test_batches_of_other_sizes(net, tmp_path):
    """Within the ranges of shapes; --best permits int8, too."""
    rng = np.random.default_rng(3)
    data = [{"x": rng.standard_normal((n, 3, 6, 5)).astype("float32"),
             "side/in": rng.standard_normal((n, 7)).astype("float32")} for n in (1, 4, 3)]
    folder = as_folders(tmp_path / "data", data)
    most = max(np.abs(batch["x"]).max() for batch in data)
    run(f"--onnx={net}", "--best", f"--calib={tmp_path / 'net.cache'}", f"--calibData={folder}",
        "--calibMethod=minmax", "--minShapes=x:1x3x6x5,side/in:1x7",
        "--maxShapes=x:4x3x6x5,side/in:4x7", "--shapes=x:2x3x6x5,side/in:2x7", *QUICK)
    assert tv.Calibration.load(tmp_path / "net.cache").amax["x"] == pytest.approx(most)


def test_a_cache_that_is_there_is_read_and_no_batch_is_run(net, tmp_path):
    folder = as_folders(tmp_path / "data", batches())
    cache = tmp_path / "net.cache"
    calibrated(net, folder, cache)
    before = cache.read_bytes()
    (folder / "000" / "x.npy").write_bytes(b"no array")
    said = calibrated(net, folder, cache)
    assert "no batch is run" in said and cache.read_bytes() == before
    said = calibrated(net, folder, cache, "--calibMethod=minmax", code=2)
    assert "TRT-101401-EntropyCalibration2, --calibMethod=minmax makes MinMaxCalibration" in said


# --- bad data ---

def without(batch, name):
    return {k: v for k, v in batch.items() if k != name}


@pytest.mark.parametrize("as_files", [as_folders, as_archives])
@pytest.mark.parametrize("change, message", [
    (lambda b: without(b, "side/in"), "the input 'side/in'.*it has"),
    (lambda b: b | {"x": b["x"].astype("float64")}, "input 'x' holds float64, want float32"),
    (lambda b: b | {"x": b["x"] * np.float32(math.nan)}, "input 'x' holds NaN"),
    (lambda b: b | {"x": b["x"][:0]}, "input 'x' is empty"),
    (lambda b: b | {"x": b["x"][:, :2]}, 'input "x" dimension 1: got 2'),
    (lambda b: b | {"x": b["x"][0]}, 'input "x"'),
    (lambda b: b | {"x": b["x"] * np.float32(1e38)}, "'x' holds infinities|'f' holds infinities"),
])
@pytest.mark.filterwarnings("ignore:overflow")
def test_bad_batches(net, tmp_path, as_files, change, message):
    """The message names the file and the tensor; good ones before it are kept."""
    data = batches(3)
    data[2] = change(data[2])
    folder = as_files(tmp_path / "data", data)
    said = calibrated(net, folder, tmp_path / "net.cache", code=1)
    line = next(line for line in said.splitlines() if "[E]" in line)
    assert re.search(message, line), line
    assert "002" in line and not (tmp_path / "net.cache").exists()


def test_damaged_files(net, tmp_path):
    data = batches(1)
    for damage, message in (
            (lambda b: b"", "is not a .npz file"), (lambda b: b[:-30], "is not a .npz file"),
            (lambda b: b[200:], "is damaged|cut short"),
            (lambda b: b[:300] + b"?" + b[301:], "'x' is damaged"),
            (lambda b: b.replace(b"NUMPY", b"NUMPI"), "is damaged")):
        folder = as_archives(tmp_path / str(len(message) + len(damage(b"x" * 999))), data)
        path = folder / "000.npz"
        path.write_bytes(damage(path.read_bytes()))
        said = calibrated(net, folder, tmp_path / "net.cache", code=1)
        assert re.search(f"000.npz: .*({message})", said), said


def test_damaged_compressed_files(net, tmp_path):
    folder = as_archives(tmp_path / "data", batches(1), np.savez_compressed)
    path = folder / "000.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:120] + bytes(8) + whole[128:])
    assert "'x' is damaged" in calibrated(net, folder, tmp_path / "net.cache", code=1)


def test_folders_without_batches(net, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    said = calibrated(net, folder, tmp_path / "net.cache", code=1)
    assert re.search("holds no batch: want .npz files, .*'x', 'side/in'; it has nothing", said)
    (folder / "image.png").write_text("")
    assert "it has 'image.png'" in calibrated(net, folder, tmp_path / "net.cache", code=1)
    (folder / "000").mkdir()
    (folder / "000" / "z.npy").write_text("")
    said = calibrated(net, folder, tmp_path / "net.cache", code=1)
    assert re.search("000 has no file of the input 'x': want x.npy; it has 'z.npy'", said)
    both = as_folders(tmp_path / "both", batches(1))
    (both / "000" / "x.bin").write_bytes(b"")
    said = calibrated(net, both, tmp_path / "net.cache", code=1)
    assert re.search("input 'x': got .*x.bin and .*x.npy|got .*x.npy and .*x.bin", said)
    raw = as_folders(tmp_path / "raw", batches(1), "raw")
    (raw / "000" / "x.raw").write_bytes(b"1234")
    said = calibrated(net, raw, tmp_path / "net.cache", code=1)
    assert "x.raw: has 4 bytes of data, want 720" in said


def test_models_with_nothing_to_calibrate(tmp_path):
    graph = make.make_graph([make.make_node("Relu", ["x"], ["y"])], "relu", [tensor("x", [2, 3])],
                            [tensor("y", [2, 3])])
    path = tmp_path / "relu.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=9), path)
    np.save(tmp_path / "x.npy", np.zeros((2, 3), "float32"))
    said = run(f"--onnx={path}", "--int8", f"--calib={tmp_path / 'c'}", f"--calibData={tmp_path}",
               code=1)
    assert "has no product or convolution with constant weights" in said


@pytest.mark.parametrize("flags, message", [
    (["--int8", "--calibData=."], "--calibData needs --calib=FILE"),
    (["--calib=new.cache", "--calibData=."], "--calibData needs --int8 or --best"),
    (["--int8", "--calib=new.cache", "--calibData=missing"], "--calibData: .*missing"),
    (["--int8", "--calib=new.cache"], "--calib: .*new.cache"),
    (["--int8", "--calib=new.cache", "--calibData=.", "--calibMethod=kl"], "--calibMethod: .*kl"),
    (["--calibMethod=mse"], "--calibMethod needs --calibData"),
    (["--calibSmoothQuant"], "--calibSmoothQuant needs --calibData"),
    (["--calibBiasCorrection"], "--calibBiasCorrection needs --calibData"),
    (["--int8", "--calib=new.cache", "--calibData=.", "--calibSmoothQuant=1.5"],
     "--calibSmoothQuant: .*'1.5'"),
    (["--int8", "--calib=new.cache", "--calibData=.", "--calibSmoothQuant=x"],
     "--calibSmoothQuant: .*'x'"),
    (["--int8", "--calib=new.cache", "--calibData=.", "--calibBiasCorrection=maybe"],
     "calibBiasCorrection"),
    (["--int8", "--calib=new.cache", "--calibData=.", "--calibPercentile=99"],
     "--calibPercentile needs --calibMethod=percentile"),
    (["--int8", "--calib=new.cache", "--calibData=.", "--calibMethod=percentile",
      "--calibPercentile=0"], "--calibPercentile: got 0, want more"),
    (["--int8", "--calib=new.cache", "--calibData=.", "--calibMethod=percentile",
      "--calibPercentile=101"], "--calibPercentile: .*'101'"),
    (["--int8", "--calib=net.vke", "--calibData=.", "--saveEngine=net.vke"],
     "--saveEngine: got net.vke, which --calib names, too"),
])
def test_flags_that_do_not_go_together(net, flags, message):
    said = run(f"--onnx={net}", *flags, code=2)
    assert re.search(message, said) and "RUNNING" not in said


# --- interruptions ---

def test_a_calibration_that_failed_goes_on(net, tmp_path):
    """Behind the batches that were counted, which are not read again."""
    data = batches(4)
    folder = as_folders(tmp_path / "data", data)
    calibrated(net, folder, tmp_path / "whole.cache")
    third = folder / "002" / "x.npy"
    good = third.read_bytes()
    third.write_bytes(good[:200])
    cache = tmp_path / "net.cache"
    assert re.search("002.x.npy: has ", calibrated(net, folder, cache, code=1))
    assert (tmp_path / "net.cache.partial").exists()
    third.write_bytes(good)
    for name in ("000", "001"):
        (folder / name / "x.npy").write_bytes(b"no array")
    assert "goes on behind 2 batches" in calibrated(net, folder, cache)
    assert cache.read_bytes() == (tmp_path / "whole.cache").read_bytes()
    assert not (tmp_path / "net.cache.partial").exists()


@pytest.mark.parametrize("flags, given", [
    ([], {}), (["--calibSmoothQuant=0.25"], {"smooth_quant": 0.25})])
def test_it_goes_on_where_tv_calibrate_stopped(net, tmp_path, flags, given):
    data = batches(4)
    folder = as_folders(tmp_path / "data", data)

    def interrupted():
        yield from data[:2]
        raise KeyboardInterrupt

    cache = tmp_path / "net.cache"
    with pytest.raises(KeyboardInterrupt):
        tv.calibrate(str(net), interrupted(), "mse", cache, inputs=RANGES, **given)
    others = [] if given else ["--calibBiasCorrection"]
    said = calibrated(net, folder, cache, "--calibMethod=mse", *others, code=1)
    assert "or of other options" in said
    said = calibrated(net, folder, cache, "--calibMethod=mse", *flags)
    assert "goes on behind 2 batches" in said
    want = tv.calibrate(str(net), data, "mse", inputs=RANGES, **given)
    assert cache.read_text() == want.to_text()


def test_partial_files_of_others(net, tmp_path):
    folder = as_folders(tmp_path / "data", batches(1))
    partial = tmp_path / "net.cache.partial"
    partial.write_text("{}")
    said = calibrated(net, folder, tmp_path / "net.cache", code=1)
    assert "net.cache.partial cannot be read: remove it" in said
    partial.write_text('{"format": "torch_vulkan.calibration", "version": 4, "model": "another",'
                       ' "done": 1, "by_channels": false, "tensors": []}')
    said = calibrated(net, folder, tmp_path / "net.cache", code=1)
    assert "is of another model or version" in said


def test_best_without_a_calibration(net, tmp_path):
    """Is float16, as trtexec's scripts have it without one; int8 that is asked for is an error."""
    shapes = "--shapes=x:2x3x6x5,side/in:2x7"

    def layers(*flags):
        path = tmp_path / "layers.json"
        run(f"--onnx={net}", shapes, *flags, f"--exportLayerInfo={path}", *QUICK)
        return path.read_text()

    assert layers("--best") == layers("--fp16")  # test_vkexec_outputs.py: with a warning
    assert "int8 needs a calibration" in run(f"--onnx={net}", shapes, "--best", "--int8", *QUICK,
                                             code=1)


def test_ctrl_c(net, tmp_path):
    """What was counted is kept."""
    data = batches(1)[0]
    folder = tmp_path / "data"
    folder.mkdir()
    np.savez(folder / "0000.npz", **data)
    for i in range(1, 4000):
        (folder / f"{i:04}.npz").symlink_to("0000.npz")
    cache = tmp_path / "net.cache"
    flags = [f"--onnx={net}", "--int8", f"--calib={cache}", f"--calibData={folder}",
             "--calibMethod=minmax", "--shapes=x:2x3x6x5,side/in:2x7", "--skipInference"]
    process = subprocess.Popen(["stdbuf", "-oL", VKEXEC, *flags], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "Calibrating with 4000 batches" in line:
            break
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=patience(120))
    assert process.returncode == 1, said
    done = int(re.search(r"interrupted after (\d+) of 4000 batches", said)[1])
    assert 0 < done < 4000 and not cache.exists()
    said = run(*flags)
    assert f"goes on behind {done} batches" in said
    most = tv.Calibration.load(cache).amax["x"]
    assert most == pytest.approx(np.abs(data["x"]).max())
