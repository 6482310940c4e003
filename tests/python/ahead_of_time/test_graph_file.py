"""Graph files: what tv.export_graph writes, what reads it, and what is refused."""

import ctypes
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._native import C

from marks import turns
from workloads.networks import NETWORKS
from workloads.patience import patience

safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
VKEXEC = Path(tv.__file__).parent / "bin" / "vkexec"
SETTINGS = json.dumps({"optimization_level": 0, "min_block_size": 1})


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        return torch.softmax(self.head(x.mean((2, 3))), -1), x


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(29, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
        self.head = nn.Linear(16, 29, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.layer(self.embed(ids)))


def network(kind, seed=0):
    torch.manual_seed(seed)
    net = kind().eval()
    if kind is Pictures:
        net.norm.running_mean.uniform_(-1, 1)
        net.norm.running_var.uniform_(0.5, 2)
    return net


def images(low=2, high=2, name="x"):
    return [tv.Input(min_shape=(low, 3, 9, 9), opt_shape=(2, 3, 9, 9), max_shape=(high, 3, 9, 9),
                     name=name)]


def ids(low=2, high=2):
    return [tv.Input(min_shape=(low, 7), opt_shape=(2, 7), max_shape=(high, 7), dtype=torch.int64)]


def engine_of(path, inputs=None, weights=""):
    """As vkexec and the compile service build it."""
    read = C.read_graph_file(str(path), inputs or {}, str(weights))
    plan = C.plan(read.graph, SETTINGS, C.device_profile(""), whole=True)
    assert plan.refusals == []
    vke = C.build(plan)
    places = {name: i for i, (name, _, _) in enumerate(read.weights)}
    held = [read.weight_bytes(places[w["name"]]) for w in C.vke_info(vke)["weights"]]
    return tv.Engine(C.vke_with_weights(vke, [
        (ctypes.addressof(ctypes.c_char.from_buffer(data)), len(data)) for data in held]))


def compiled(net, inputs):
    (engine,) = tv.engines(tv.compile(net, inputs, min_block_size=1, optimization_level=0))
    return engine


@pytest.fixture
def path(tmp_path):
    return tmp_path / "net.vkg"


@turns(2)
@pytest.mark.parametrize(("kind", "inputs", "make"), [
    (Pictures, images(), lambda n: torch.randn(n, 3, 9, 9)),
    (Pictures, images(1, 4), lambda n: torch.randn(n, 3, 9, 9)),
    (Words, ids(), lambda n: torch.randint(0, 29, (n, 7))),
    (Words, ids(1, 4), lambda n: torch.randint(0, 29, (n, 7))),
], ids=["pictures", "pictures-dynamic", "words", "words-dynamic"])
def test_an_engine_is_that_of_tv_compile(kind, inputs, make, path):
    net = network(kind)
    tv.export_graph(net, path, inputs)
    read, wanted = engine_of(path), compiled(net, inputs)
    for side in ("inputs", "outputs", "weights"):
        assert {b["name"] for b in read.info()[side]} == {b["name"] for b in wanted.info()[side]}
    for batch in (1, 3, 4) if inputs[0].dims[0][0] == 1 else (2,):
        x = make(batch)
        got, want = read.run([x]), wanted.run([x])
        assert all(torch.equal(got[name], want[name]) for name in want)


def test_an_exported_program_is_written_too(path):
    net, x = network(Pictures), torch.randn(2, 3, 9, 9)
    tv.export_graph(torch.export.export(net, (x,)), path)
    for got, want in zip(engine_of(path).run([x]).values(), net(x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_the_file_is_safetensors_and_the_same_each_time(path):
    net = network(Words)
    tv.export_graph(net, path, ids())
    tensors = safetensors.load_file(path)
    assert torch.equal(tensors["layer.linear1.weight"], net.layer.linear1.weight)
    first = path.read_bytes()
    tv.export_graph(net, path, ids())
    assert path.read_bytes() == first
    assert str(Path(__file__).parent).encode() not in first


def test_weights_are_refitted(path, tmp_path):
    old, new = network(Pictures), network(Pictures, 1)
    tv.export_graph(old, path, images())
    engine, x = engine_of(path), torch.randn(2, 3, 9, 9)
    engine.refit({name: t for name, t in new.state_dict().items() if t.dtype == torch.float32})
    want = compiled(new, images()).run([x])
    assert all(torch.equal(engine.run([x])[name], want[name]) for name in want)
    state = {name: t for name, t in new.state_dict().items() if t.dtype == torch.float32}
    safetensors.save_file(state, tmp_path / "new.safetensors")
    other = engine_of(path, weights=tmp_path / "new.safetensors").run([x])
    assert all(torch.equal(other[name], want[name]) for name in want)


@pytest.mark.parametrize(("tensors", "says"), [
    ({"nothing": torch.zeros(3)}, "no weight 'nothing'"),
    ({"head.bias": torch.zeros(4)}, r"float32\[4\], and the graph has float32\[5\]"),
    ({"head.bias": torch.zeros(5, dtype=torch.float16)}, "float16"),
])
def test_weights_that_do_not_fit_are_refused(tensors, says, path, tmp_path):
    tv.export_graph(network(Pictures), path, images())
    safetensors.save_file(tensors, tmp_path / "new.safetensors")
    with pytest.raises(ValueError, match=says):
        C.read_graph_file(str(path), {}, str(tmp_path / "new.safetensors"))


def test_sizes_are_narrowed_and_not_widened(path):
    net, x = network(Pictures), torch.randn(3, 3, 9, 9)
    tv.export_graph(net, path, images(1, 4))
    fixed = [(3, 3, 3), (9, 9, 9), (9, 9, 9)]
    engine = engine_of(path, {"x": [(2, 3, 3), *fixed]})
    torch.testing.assert_close([*engine.run([x]).values()][0], net(x)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="x"):
        engine.run([torch.randn(4, 3, 9, 9)])
    for given, says in (({"x": [(1, 2, 8), *fixed]}, "got 1 to 8, .* of 1 to 4"),
                        ({"x": [(1, 1, 1), *fixed[:2], (8, 8, 8)]}, "dimension 3: got 8, .* has 9"),
                        ({"x": fixed}, "got 3 sizes, want 4"), ({"y": fixed}, "no input 'y'")):
        with pytest.raises(ValueError, match=says):
            C.read_graph_file(str(path), given)


class Several(nn.Module):
    """Results that are views, inputs, weights, repeated; and None."""

    def __init__(self):
        super().__init__()
        self.w, self.unread = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(2))

    def forward(self, x, y=None):
        z = x * self.w
        return z, z.t(), x, z, self.w, None


def test_results_are_tensors_of_their_own(path):
    net, x = Several().eval(), torch.randn(4, 3)
    tv.export_graph(net, path, [x])
    got = [*engine_of(path).run([x]).values()]
    want = [t for t in net(x) if t is not None]
    assert len(got) == len(want)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_build_graph(path, tmp_path):
    net, x = network(Pictures), torch.randn(3, 3, 9, 9)
    tv.export_graph(net, path, images(1, 4))
    engine = tv.build_graph(path, optimization_level=0)
    want = compiled(net, images(1, 4)).run([x])
    assert all(torch.equal(engine.run([x])[name], want[name]) for name in want)
    fixed = tv.build_graph(path, {"x": (2, 3, 9, 9)}, optimization_level=0)
    assert fixed.info()["symbols"] == [] or fixed.info()["symbols"][0]["max"] == 2
    new = network(Pictures, 1)
    state = {name: t for name, t in new.state_dict().items() if t.dtype == torch.float32}
    safetensors.save_file(state, tmp_path / "new.safetensors")
    other = tv.build_graph(path, weights=tmp_path / "new.safetensors", optimization_level=0)
    torch.testing.assert_close([*other.run([x]).values()][0], new(x)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="want sizes by name"):
        tv.build_graph(path, [(2, 3, 9, 9)])
    with pytest.raises(ValueError, match="no input 'y'"):
        tv.build_graph(path, {"y": (2, 3, 9, 9)})


def test_a_configuration_names_a_graph_file(path, tmp_path):
    pytest.importorskip("pydantic")
    tv.export_graph(network(Pictures), path, images(1, 4))
    made, file = tmp_path / "net.vke", tmp_path / "net.yaml"
    file.write_text(f"graph_path: {path}\nengine_path: {made}\noptimization_level: 0\n"
                    "max_shapes: {x: [3, 3, 9, 9]}\n")
    x = torch.randn(3, 3, 9, 9)
    engine = tv.Config.from_yaml(file).compile()
    first = made.read_bytes()
    want = engine.run([x])
    assert torch.equal([*tv.Engine.load(made).run([x]).values()][0], [*want.values()][0])
    made.unlink()
    run = subprocess.run([VKEXEC, f"--config={file}", "--skipInference"], capture_output=True,
                         text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert len(made.read_bytes()) == len(first)
    file.write_text(f"graph_path: {path}\nonnx_path: x.onnx\n")
    with pytest.raises(ValueError, match="graph_path, want one"):
        tv.Config.from_yaml(file)
    run = subprocess.run([VKEXEC, f"--config={file}"], capture_output=True, text=True, check=False)
    assert run.returncode == 2 and "graph_path, want one" in run.stderr


def test_a_flag_comes_before_the_file_of_a_configuration(path, tmp_path):
    tv.export_graph(network(Pictures), path, images())
    file = tmp_path / "net.yaml"
    file.write_text("onnx_path: none.onnx\noptimization_level: 0\n")
    run = subprocess.run([VKEXEC, f"--config={file}", f"--graph={path}", "--skipInference"],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_dry_run(path):
    tv.export_graph(network(Pictures), path, images(1, 4))
    report = tv.dry_run(path, min_block_size=1)
    assert report.coverage == 1 and "net.vkg" in report.to_text()
    assert "1 engine" in report.to_text()
    few = tv.dry_run(str(path), {"x": (2, 3, 9, 9)}, min_block_size=1,
                     torch_executed_ops=["aten::_softmax"])
    assert 0 < few.coverage < 1 and "torch_executed_ops lists" in few.to_text()
    with pytest.raises(tv.UnsupportedError, match="_softmax"):
        tv.dry_run(path, min_block_size=1, torch_executed_ops=["aten::_softmax"],
                   require_full_compilation=True)


class Turned(nn.Module):
    def forward(self, x):
        return x.relu() * 2, x.t()


def test_dry_run_of_a_view_that_the_engine_copies(path):
    """PyTorch would keep the view; where nobody runs the rest of a file, the engine has it."""
    tv.export_graph(Turned(), path, [torch.randn(3, 4)])
    assert tv.dry_run(path, min_block_size=1).data["exportable"]
    tv.dry_run(path, require_full_compilation=True)
    assert len(engine_of(path).info()["outputs"]) == 2
    left = {"torch_executed_ops": ["aten::t"], "min_block_size": 1}
    assert not tv.dry_run(path, **left).data["exportable"]
    with pytest.raises(tv.UnsupportedError, match="torch_executed_ops lists aten::t"):
        tv.dry_run(path, require_full_compilation=True, **left)


class Native(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x).real + torch.randn(3)


class Changing(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        self.count += 1
        return x + self.count


@pytest.mark.parametrize(("model", "x", "says"), [
    (Native(), torch.randn(3, 3),
     r"aten::linalg_eig: no converter for .* of complex values \(test_graph_file.py:\d+\)"),
    (Native(), torch.randn(3, 3), "it draws random numbers"),
    (Changing(), torch.randn(3), "changes count"),
])
def test_what_no_engine_takes_is_refused_with_the_reasons(model, x, says, path):
    with pytest.raises(tv.UnsupportedError, match=says):
        tv.export_graph(model, path, [x])
    assert not path.exists()
    with pytest.raises(ValueError, match="inputs are missing"):
        tv.export_graph(model, path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, path):
    """Reduced, with batches of 1 to 4."""
    net = NETWORKS[name]
    model = net.make(True).eval()
    tv.export_graph(model, path, {
        key: tv.Input(min_shape=(1, *v.shape[1:]), opt_shape=v.shape, max_shape=(4, *v.shape[1:]),
                      dtype=v.dtype) for key, v in net.inputs(2, True, 0).items()})
    engine, inputs = engine_of(path), net.inputs(3, True, 0)
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(model(**inputs))
    found = engine.run({b["name"]: inputs[b["name"]] for b in engine.info()["inputs"]})
    for got, want in zip(found.values(), wanted, strict=True):
        assert (got - want).abs().max() <= 1e-3 * want.abs().max()


# --- files of strangers ---


# --- vkexec ---


def run(*arguments, code=0):
    done = subprocess.run([VKEXEC, *map(str, arguments)], capture_output=True, text=True,
                          timeout=patience(120))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_vkexec_builds_a_graph_file(path, tmp_path):
    net, x = network(Pictures), torch.randn(3, 3, 9, 9)
    tv.export_graph(net, path, images(1, 4))
    np.save(tmp_path / "x.npy", x.numpy())
    text = run(f"--graph={path}", f"--loadInputs=x:{tmp_path / 'x.npy'}", "--iterations=1",
               "--duration=0", "--warmUp=0", f"--exportOutput={tmp_path}/out/",
               "--builderOptimizationLevel=0", f"--saveEngine={tmp_path / 'net.vke'}")
    assert "Format: graph" in text
    want = engine_of(path).run([x])
    for name, tensor in want.items():
        assert np.array_equal(np.load(tmp_path / "out" / f"{name}.npy"), tensor.numpy())
    saved = tv.Engine.load(tmp_path / "net.vke").run([x])
    assert all(torch.equal(saved[name], want[name]) for name in want)


def test_vkexec_says_what_is_wrong(path, tmp_path):
    good = good_dynamic(tmp_path / "good.vkg")
    assert "no graph file" in run(f"--graph={weights_alone(path)}", code=1)
    assert "did you mean --graph" in run("net.vkg", code=2)
    assert "want one of them" in run(f"--graph={good}", "--onnx=net.onnx", code=2)
    assert "exported for" in run(f"--graph={good_dynamic(path)}", "--shapes=x:9x3x9x9", code=1)


def weights_alone(path):
    safetensors.save_file({"w": torch.zeros(3)}, path)
    return path


def good_dynamic(path):
    tv.export_graph(network(Pictures), path, images(1, 4))
    return path
