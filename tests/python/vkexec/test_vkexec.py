"""vkexec end to end: the native program on engines of reduced networks."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import torch_vulkan as tv

from vkexec_helpers import ONCE, VKEXEC, run

ROOT = Path(__file__).resolve().parents[3]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        return torch.softmax(self.head(x.mean((2, 3))), -1), x


def network(seed):
    torch.manual_seed(seed)
    net = Net().eval()
    net.norm.running_mean.uniform_(-1, 1)
    net.norm.running_var.uniform_(0.5, 2)
    return net


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with net.vke (batches of 1 to 4), stripped.vke, x.npy and the outputs' names."""
    folder = tmp_path_factory.mktemp("vkexec")
    rows = tv.Input(min_shape=(1, 3, 9, 9), opt_shape=(2, 3, 9, 9), max_shape=(4, 3, 9, 9),
                    name="x")
    (engine,) = tv.engines(tv.compile(network(0), [rows], min_block_size=1))
    engine.save(folder / "net.vke")
    engine.save(folder / "stripped.vke", strip_weights=True)
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(3, 3, 9, 9)).astype("float32"))
    save_file(network(1).state_dict(), folder / "weights.safetensors")
    return folder


def outputs_of(folder, engine):
    """By position, as arrays."""
    return [np.load(folder / f"{output['name']}.npy") for output in engine.info()["outputs"]]


def check_outputs(folder, files, seed):
    with torch.no_grad():
        wanted = network(seed)(torch.from_numpy(np.load(files / "x.npy")))
    got = outputs_of(folder, tv.Engine.load(files / "net.vke"))
    by_rank = {array.ndim: torch.from_numpy(array) for array in got}
    for want in wanted:
        torch.testing.assert_close(by_rank[want.ndim], want)


def test_neither_python_nor_torch():
    listing = subprocess.run(["ldd", VKEXEC], capture_output=True, text=True, check=True).stdout
    libraries = [line.split()[0] for line in listing.splitlines()]
    assert {"libvk_compiler.so", "libvk_runtime.so"} <= set(libraries)
    assert "not found" not in listing
    assert not [name for name in libraries if re.search("python|torch|c10|_C", name)]


def test_cmake_installs_it(tmp_path):
    """The program, its libraries and its man page, below any prefix."""
    build = ROOT / "build"
    if not (build / "cmake_install.cmake").exists() or not shutil.which("cmake"):
        pytest.skip("there is no build folder to install from")
    subprocess.run(["cmake", "--install", build, "--prefix", tmp_path], check=True,
                   capture_output=True)
    program = tmp_path / "bin" / "vkexec"
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert f"{tmp_path}/bin/../lib/libvk_compiler.so" in listing
    assert subprocess.run([program, "--version"], capture_output=True).returncode == 0
    for file in ("share/man/man1/vkexec.1", "include/runtime/engine/timed_calls.h",
                 "lib/cmake/torch_vulkan/torch_vulkanConfig.cmake"):
        assert (tmp_path / file).exists(), file


def test_what_needs_no_engine():
    assert run("--version").startswith("vkexec 0.")
    devices = run("--listDevices").splitlines()
    assert len(devices) == len(tv.devices()) and devices[0].startswith(f"0: {tv.devices()[0].name}")
    assert "Examples:" in run("--help") and "--ref" in run("compare", "--help")
    assert "--prompt" in run("generate", "--help")


def test_every_flag_is_in_the_reference_and_the_man_page():
    for command in ((), ("compare",), ("debug", "precision"), ("debug", "reduce"), ("generate",)):
        flags = set(re.findall(r"^  (?:--\w+, )?(--\w+)", run(*command, "--help"), re.M))
        assert len(flags) > 10
        for page in ("docs/vkexec.md", "docs/man/vkexec.1"):
            text = (ROOT / page).read_text().replace("\\-", "-")
            missing = {flag for flag in flags if not re.search(rf"{flag}\b", text)}
            assert not missing, f"{page} lacks {sorted(missing)}"


@pytest.mark.parametrize("arguments, message", [
    (["--loadEngin=x"], "unknown flag --loadEngin; did you mean --loadEngine?"),
    (["--loadengine=x"], "did you mean --loadEngine?"),
    (["--wibble"], "unknown flag --wibble; --help lists them"),
    (["--onnx=x", f"--calib={__file__}"], "line 1: got"),
    (["--onnx=x", "--int4"], "--int4 is not supported"),
    (["--onnx=x", "--useDLACore=0"], "--useDLACore is not supported: Vulkan devices have no DLA"),
    ([], "want --onnx=FILE or --graph=FILE to build an engine, or --loadEngine=FILE"),
    (["net.vke"], "unexpected argument 'net.vke'; did you mean --loadEngine=net.vke?"),
    (["net.onnx"], "did you mean --onnx=net.onnx?"),
    (["net"], "unexpected argument 'net'; flags are written --name=value"),
    (["--loadEngine=x", "--iterations=few"], "--iterations"),
    (["--loadEngine=x", "--iterations=0"], "--iterations"),
    (["--loadEngine=x", "--shapes=x:1xx2"], "--shapes: got the shape '1xx2' of 'x'"),
    (["--loadEngine=x", "--shapes=x"], "--shapes: got 'x'"),
    (["--loadEngine=x", "--shapes=x:1,x:2"], "'x' is there twice"),
    (["--loadEngine=x", "--percentile=101"], "--percentile: got 101, want 0 to 100"),
    (["--loadEngine=x", "--fp16"], "chosen when an engine is built"),
    (["--onnx=x", "--fp16", "--bf16"], "got --fp16 and --bf16"),
    (["--onnx=x", "--stripWeights"], "--stripWeights needs --saveEngine"),
    (["--onnx=x", "--saveEngine=./x"], "--saveEngine: got ./x, which --onnx names, too"),
    (["--graph=x", "--exportTimes=x"], "--exportTimes: got x, which --graph names, too"),
    (["--onnx=x", "--exportTimes=a.json", "--exportOutput=./a.json"],
     "--exportOutput: got ./a.json, which --exportTimes names, too"),
    (["debug", "reduce", "--onnx=x", "--save=x"], "--save: got x, which --onnx names, too"),
    (["debug", "reduce", "--onnx=reduced.onnx"], "--save: got reduced.onnx, which --onnx names"),
    (["--loadEngine=x.json", "--exportProfile=x.json"],
     "--exportProfile: got x.json, which --loadEngine names"),
    (["--onnx=x", "--timingCacheFile=/"], "--timingCacheFile: / is a directory, want a file"),
    (["--onnx=x", f"--cacheDir={__file__}"], "is a file, want a directory"),
    (["--onnx=x", "--memPoolSize=frobnicate:1"], "want workspace:MiB"),
    (["--onnx=x", "--memPoolSize=tacticSharedMem"], "want workspace:MiB"),
    (["--onnx=x", "--memPoolSize=workspace:1,tacticSharedMem:x"], "want a number of MiB"),
    (["--onnx=x", "--memPoolSize=workspace:1TiB"], "want a number of MiB, or one with a unit"),
    (["--onnx=x", "--memPoolSize=workspace:GiB"], "--memPoolSize: got '', want a number"),
    (["--onnx=x", "--workspace=-1"], "--workspace: got '-1', want a number of MiB"),
    (["--onnx=x", "--workspace=x"], "--workspace: got 'x'"),
    (["--onnx=x", "--sparsity=half"], "--sparsity"),
    (["--onnx=x", "--exportGraph=a.png"], "got a.png, want a name that ends in .svg"),
    (["--onnx=x", "--exportProfile=a.foo"], "want a name that ends in .json, .svg"),
    (["--loadEngine=x", "--sparsity=force"], "--sparsity is chosen when an engine is built"),
    (["--onnx=x", "--useCudaGraph=1"], "unknown flag --useCudaGraph"),
    (["--onnx=x", "--foo"], "unknown flag --foo; --help lists them"),
    (["compare", "--loadEngine=x"], "--loadEngine needs --ref=DIR"),
    (["compare", "--onnx=x", "--ref=y", "--streams=2"], "unknown flag --streams"),
])
def test_a_bad_command_line(arguments, message):
    assert message in run(*arguments, code=2)


IDLE = ("--useCudaGraph", "--noDataTransfers", "--profilingVerbosity=detailed",
        "--noTF32", "--explicitBatch", "--useSpinWait", "--asyncFileReader")


def test_flags_that_change_nothing_are_one_warning(files):
    text = run("--loadEngine=missing.vke", *IDLE, code=1)  # with standard error
    (line,) = [line for line in text.splitlines() if "[W] Without effect" in line]
    assert all(flag.split("=")[0] + ": " in line for flag in IDLE)
    assert "[W]" not in run("--loadEngine=missing.vke", code=1)
    run(f"--loadEngine={files}/net.vke", *ONCE, *IDLE)


def test_the_environment_gives_the_level():
    """Where no flag does."""
    variable = {"TORCH_VULKAN_OPTIMIZATION_LEVEL": "9"}
    said = run("--onnx=missing.onnx", code=2, **variable)
    assert "environment variable TORCH_VULKAN_OPTIMIZATION_LEVEL: got '9', want 0 to 5" in said
    assert "missing.onnx" in run("--onnx=missing.onnx", "--builderOptimizationLevel=1", code=1,
                                 **variable)


def test_changed_settings_are_reported(tmp_path):
    """Each that is not as it is by default, from flags and from a file; the others are not."""
    said = run("--onnx=missing.onnx", "--noMatrixUnits", "--tuningSeconds=3", code=1)
    assert "matrix_units: false\n" in said and "tuning_seconds: 3\n" in said
    assert "check_indices" not in said
    config = tmp_path / "net.yaml"
    config.write_text("check_indices: false\nfp16: true\nautocast_excluded_ops: [aten::exp]\n")
    said = run("--onnx=missing.onnx", f"--config={config}", code=1)
    assert 'autocast_excluded_ops: ["aten::exp"]\n' in said and "check_indices: false\n" in said
    assert "matrix_units" not in said


def test_settings_that_mean_nothing_together(tmp_path):
    config = tmp_path / "net.yaml"
    config.write_text("autocast_excluded_ops: [aten::exp]\n")
    said = run("--onnx=missing.onnx", f"--config={config}", code=2)
    assert "autocast_excluded_ops need" in said and "a 16-bit dtype" in said


@pytest.mark.parametrize("text, size", [
    ("1GiB", 1 << 30), ("1G", 1 << 30), ("0.5g", 1 << 29), ("64", 64 << 20), ("64M", 64 << 20),
    ("64MiB", 64 << 20), ("512K", 512 << 10), ("512KiB", 512 << 10), ("4096B", 4096)])
def test_units_of_the_workspace(text, size):
    said = run("--onnx=missing.onnx", f"--memPoolSize=workspace:{text}", code=1)
    assert f"Memory Pools: workspace: {size / (1 << 20):.12g} MiB" in said


def test_pools_that_have_no_limit_here():
    said = run("--onnx=missing.onnx", "--memPoolSize=tacticSharedMem:1M,workspace:2G,dlaSRAM:1",
               code=1)
    assert "Memory Pools: workspace: 2048 MiB" in said
    assert "[W] Without effect: --memPoolSize: tacticSharedMem, dlaSRAM: only the pool" in said


def test_no_sparsity_is_no_warning():
    assert "[W]" not in run("--onnx=missing.onnx", "--sparsity=disable", code=1)


@pytest.mark.parametrize("arguments, message", [
    (["--loadEngine=missing.vke"], "missing.vke"),
    (["--loadEngine=NET", "--shapes=y:1x3x9x9"], "there is no input 'y'; the inputs are x"),
    (["--loadEngine=NET", "--shapes=x:5x3x9x9"], "got 5, want 1 to 4"),
    (["--loadEngine=NET", "--loadInputs=x:SELF"], "is not a .npy file"),
    (["--loadEngine=NET", "--loadInputs=x:X", "--shapes=x:2x3x9x9"], "--shapes says 2x3x9x9"),
    (["--loadEngine=NET", "--device=no such device"], "no such device"),
])
def test_a_run_that_fails(files, tmp_path, arguments, message):
    (tmp_path / "self.npy").write_text("nothing of the kind")
    places = {"NET": files / "net.vke", "SELF": tmp_path / "self.npy", "X": files / "x.npy"}
    for name, path in places.items():
        arguments = [re.sub(rf"\b{name}$", str(path), a) for a in arguments]
    text = run(*arguments, *ONCE, code=1)
    assert message in text and "&&&& FAILED vkexec" in text


def test_outputs_of_a_file(files, tmp_path):
    """From .npy and raw files, into one file and several."""
    run(f"--loadEngine={files}/net.vke", f"--loadInputs=x:{files}/x.npy", *ONCE,
        f"--exportOutput={tmp_path}/out/")
    check_outputs(tmp_path / "out", files, seed=0)
    np.load(files / "x.npy").tofile(tmp_path / "x.bin")
    text = run(f"--loadEngine={files}/net.vke", f"--loadInputs=x:{tmp_path}/x.bin", *ONCE,
               "--shapes=x:3x3x9x9", f"--exportOutput={tmp_path}/out.json", "--dumpOutput")
    entries = json.loads((tmp_path / "out.json").read_text())
    engine = tv.Engine.load(files / "net.vke")
    for entry, array in zip(entries, outputs_of(tmp_path / "out", engine), strict=True):
        assert entry["dimensions"] == "x".join(map(str, array.shape))
        np.testing.assert_array_equal(np.float32(entry["values"]), array.flatten())
        assert f"{entry['name']}: ({entry['dimensions']})" in text
    assert str(entries[0]["values"][0]) in text


def test_fortran_order_and_fills(files, tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(np.load(files / "x.npy")))
    run(f"--loadEngine={files}/net.vke", f"--loadInputs=x:{tmp_path}/x.npy", *ONCE,
        f"--exportOutput={tmp_path}/f/")
    check_outputs(tmp_path / "f", files, seed=0)
    engine, found = tv.Engine.load(files / "net.vke"), []
    for i, fill in enumerate((["--fill=zero"], ["--seed=1"], ["--seed=1"], ["--seed=2"])):
        run(f"--loadEngine={files}/net.vke", *fill, *ONCE, f"--exportOutput={tmp_path}/{i}/")
        found.append(outputs_of(tmp_path / str(i), engine)[0])
    zero = engine.run({"x": torch.zeros(2, 3, 9, 9)})
    np.testing.assert_array_equal(found[0], next(iter(zero.values())).numpy())
    np.testing.assert_array_equal(found[1], found[2])
    assert not np.array_equal(found[1], found[3]) and not np.array_equal(found[1], found[0])


def test_the_profile_is_chosen_by_the_shapes(tmp_path):
    """A file of two engines: the one whose usual size is nearest runs."""
    b = tv.Builder()
    x = b.input("x", (-1, 8))
    weight = torch.randn(8, 4)
    b.output("y", b.op("aten::relu", b.op("aten::mm", x, b.weight("w", weight))))
    ranges = [((1, 8), (2, 8), (4, 8)), ((4, 8), (60, 8), (64, 8))]
    b.build(profiles=[tv.Profile(x=r) for r in ranges]).save(tmp_path / "two.vke")
    for rows in (3, 50):
        value = np.random.default_rng(rows).normal(size=(rows, 8)).astype("float32")
        np.save(tmp_path / "x.npy", value)
        text = run(f"--loadEngine={tmp_path}/two.vke", f"--loadInputs=x:{tmp_path}/x.npy", *ONCE,
                   f"--exportOutput={tmp_path}/", f"--exportLayerInfo={tmp_path}/layers.json",
                   f"--saveEngine={tmp_path}/again.vke")
        assert "Profiles: 2" in text
        symbols = json.loads((tmp_path / "layers.json").read_text())["Symbols"]
        assert symbols[0]["Opt"] == (2 if rows == 3 else 60)
        torch.testing.assert_close(torch.from_numpy(np.load(tmp_path / "y.npy")),
                                   torch.relu(torch.from_numpy(value) @ weight))
    for rows in (1, 64):
        run(f"--loadEngine={tmp_path}/again.vke", f"--shapes=x:{rows}x8", *ONCE)


def test_refit_of_a_stripped_engine(files, tmp_path):
    text = run(f"--loadEngine={files}/stripped.vke", *ONCE, code=1)
    assert "was saved without its weights" in text
    listed = run(f"--loadEngine={files}/stripped.vke", "--dumpRefit", "--skipInference")
    assert "stem.weight: float32 4x3x3x3" in listed
    run(f"--loadEngine={files}/stripped.vke", f"--weights={files}/weights.safetensors",
        "--skipInference", f"--saveEngine={tmp_path}/new.vke")
    run(f"--loadEngine={tmp_path}/new.vke", f"--loadInputs=x:{files}/x.npy", *ONCE,
        f"--exportOutput={tmp_path}/out/")
    check_outputs(tmp_path / "out", files, seed=1)
    save_file({"stem.weight": torch.zeros(4, 3, 5, 5)}, tmp_path / "bad.safetensors")
    assert "got float32 4x3x5x5, want float32 4x3x3x3" in run(
        f"--loadEngine={files}/net.vke", f"--weights={tmp_path}/bad.safetensors", code=1)


def test_report_and_times(files, tmp_path):
    text = run(f"--loadEngine={files}/net.vke", "--iterations=25", "--duration=0", "--warmUp=1",
               "--streams=2", "--percentile=50,90", f"--exportTimes={tmp_path}/times.json",
               "--shapes=x:4x3x9x9", "--verbose")
    times = json.loads((tmp_path / "times.json").read_text())
    assert len(times) == 25 and {call["stream"] for call in times} <= {0, 1}
    for call in times:
        assert call["latencyMs"] == pytest.approx(
            call["h2dMs"] + call["computeMs"] + call["d2hMs"])
        assert 0 < call["enqMs"] <= call["hostMs"] and call["computeMs"] > 0
    assert "Input binding x with dimensions 4x3x9x9 (float32)" in text
    assert "Timing trace has 25 queries" in text
    most, after = map(float, re.search(r"Device memory: (\S+) MiB at most, (\S+) MiB after",
                                       text).groups())
    assert most >= after >= 0
    wall_s = float(re.search(r"Total Host Walltime: (\S+) s", text)[1])
    qps = float(re.search(r"Throughput: (\S+) qps", text)[1])
    assert qps == pytest.approx(25 / wall_s, rel=1e-3)
    for title, key in (("Latency", "latencyMs"), ("Host Time", "hostMs"),
                       ("Enqueue Time", "enqMs"), ("GPU Compute Time", "computeMs")):
        line = re.search(rf"\] {title}: min = (\S+) ms, max = (\S+) ms, mean = (\S+) ms, "
                         r"median = (\S+) ms, percentile\(50%\) = \S+ ms, "
                         r"percentile\(90%\) = (\S+) ms", text)
        values = sorted(call[key] for call in times)
        wanted = [values[0], values[-1], np.mean(values), np.median(values), values[22]]
        assert [float(v) for v in line.groups()] == pytest.approx(wanted, rel=1e-4), title


def test_layers(files, tmp_path):
    engine = tv.Engine.load(files / "net.vke")
    names = [layer["name"] for layer in engine.info()["layers"]]
    text = run(f"--loadEngine={files}/net.vke", *ONCE, "--dumpProfile", "--dumpLayerInfo",
               f"--exportProfile={tmp_path}/profile.json",
               f"--exportLayerInfo={tmp_path}/layers.json", f"--exportGraph={tmp_path}/net.svg")
    assert f"us in {len(names)} layers" in text and "stem" in text
    count, *layers = json.loads((tmp_path / "profile.json").read_text())
    assert count["count"] >= 1 and [layer["name"] for layer in layers] == names
    assert sum(layer["percentage"] for layer in layers) == pytest.approx(100)
    assert layers[0]["modulePath"] == "stem" and all(layer["averageMs"] > 0 for layer in layers)
    info = json.loads((tmp_path / "layers.json").read_text())
    assert [layer["Name"] for layer in info["Layers"]] == names
    assert info["Bindings"] == ["x", *(o["name"] for o in engine.info()["outputs"])]
    assert info["Symbols"][0]["Max"] == 4 and info["Layers"][0]["Inputs"][0]["Name"] == "x"
    picture = ET.parse(tmp_path / "net.svg").getroot()
    boxes = picture.findall(".//{http://www.w3.org/2000/svg}rect")
    assert len(boxes) == len(names) + 1 + 2  # and the bindings
    assert (tmp_path / "net.svg").read_text().strip() == engine.picture().strip()
    for box in picture.findall(".//{http://www.w3.org/2000/svg}g"):
        lines = [line.text for line in box.findall("{http://www.w3.org/2000/svg}text")]
        lines = [line for line in lines if line]
        assert len({*lines}) == len(lines), "no line of a box repeats another"
        assert len(lines[0]) <= 31 and all(len(line) <= 41 for line in lines[1:])
    for name in ("a.trace.json", "a.svg"):
        run(f"--loadEngine={files}/net.vke", *ONCE, f"--exportProfile={tmp_path}/{name}")
    events = json.loads((tmp_path / "a.trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events] == names
    assert len(ET.parse(tmp_path / "a.svg").findall(".//{*}rect")) == len(names)
