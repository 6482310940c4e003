"""tv.dry_run, torch.compile(dryrun=…) and python -m torch_vulkan coverage."""

import json
import math
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import jsonschema
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import torch_vulkan as tv
from torch_vulkan._dry_run.advice import advice
from torch_vulkan._dry_run.report import SCHEMA
from torch_vulkan._dry_run.text_page import size_notes

from workloads.networks import NETWORKS


class Broken(nn.Module):
    """A network with an operator that has no converter, in the middle of what would be one engine,
    and with a graph break."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        y = self.norm(self.first(x)).relu().sigmoid()
        y = torch.linalg.matrix_exp(y[:4, :4] + 9 * torch.eye(4)) @ y[:4]
        y = self.last(y).relu().sigmoid().tanh().exp()
        print("a graph break")
        return (y + 1).tanh().relu().exp().sqrt()


def broken(**settings):
    return tv.dry_run(Broken().eval(), [torch.randn(8, 8)], **settings)


def validate(report):
    """Against the published schema."""
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(report.to_json()), schema)
    return report


def test_without_a_driver():
    """In a process in which Vulkan finds no device."""
    program = ("import torch, torch_vulkan as tv\n"
               "m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())\n"
               "r = tv.dry_run(m.eval(), [torch.randn(2, 4)], min_block_size=1)\n"
               "assert r.coverage == 1 and len(r.engines) == 1, r\n"
               "torch._dynamo.reset()\n"
               "x = torch.randn(2, 4)\n"
               "options = {'dryrun': True, 'min_block_size': 1}\n"
               "f = torch.compile(m, backend='vulkan', options=options)\n"
               "with torch.no_grad(): assert torch.equal(f(x), m(x))\n"
               "try: tv.devices()\n"
               "except RuntimeError: print('no device')\n")
    env = os.environ | {"VK_ICD_FILENAMES": "/nonexistent.json", "VK_DRIVER_FILES": "/none.json"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert "no device" in done.stdout and "1 engine" in done.stdout


def test_reasons_name_what_to_do():
    report = validate(broken())
    (row,) = [r for r in report.data["operators"] if "linalg_matrix_exp" in r["operator"]]
    assert row["reason"] == "no converter for aten::linalg_matrix_exp"
    assert "custom_operators.md" in row["advice"]
    assert row["places"][0]["source"].startswith("test_dry_run.py:")
    text = str(report)
    assert "no converter for aten::linalg_matrix_exp" in text and row["places"][0]["source"] in text
    assert "\033[" not in text and "\033[" in report.to_text(colour=True)


def test_module_paths():
    report = broken(min_block_size=1, torch_executed_ops=("aten::addmm",))
    (row,) = [r for r in report.data["operators"] if r["operator"] == "aten::addmm"]
    assert [p["module_path"] for p in row["places"]] == ["first", "last"]
    assert row["advice"] == "Take aten::addmm off torch_executed_ops."
    modules = {m["path"]: m for g in report.data["graphs"] for m in g["modules"]}
    assert modules["first"]["covered_nodes"] == 0 and modules["norm"]["covered_nodes"] == 1


@pytest.mark.parametrize("reason,said", [
    ("its block has 4 compute nodes, fewer than min_block_size = 5", "min_block_size to 4 or"),
    ("its block has 1 compute node, fewer than min_block_size = 5", "min_block_size to 1."),
    ("'x': float64 stays native unless truncate_long_and_double computes it as float32", "float32"),
    ("it draws random numbers", "model.eval()"), ("its sizes depend on data", "torch.where"),
    ("its tensors live on several devices", ".to(device)"), ("not an ATen operator", "custom"),
    ("the higher-order operator cond, whose bodies PyTorch runs", "torch.where"),
    ("'x': rank 9 is above 8", "reshape"), ("dim 3 must be even", ""),
])
def test_advice(reason, said):
    assert said in advice(reason) and bool(said) == bool(advice(reason))


def test_graph_breaks_and_export():
    report = broken()
    (found,) = report.data["graph_breaks"]
    assert "print" in found["reason"] and found["hints"] and found["code"].startswith("print(")
    assert found["source"].startswith("test_dry_run.py:")
    assert len(report.data["graphs"]) == 2 and report.data["exportable"] is True

    def branches(x):
        return x.relu() if x.sum() > 0 else x.tanh()

    report = tv.dry_run(branches, [torch.randn(3)])
    assert report.data["exportable"] is False and report.data["export_reason"]
    assert "torch.where" in report.data["graph_breaks"][0]["hints"][0]
    assert "branches on the value" in str(report)


def test_recompilations():
    def by_size(x):
        return x.relu() * (2 if x.shape[0] > 9 else 3)

    ranged = tv.Input(min_shape=(2, 3), opt_shape=(12, 3), max_shape=(20, 3))
    report = validate(tv.dry_run(by_size, [ranged]))
    assert len(report.data["graphs"]) == 2
    (again,) = report.data["recompilations"]
    assert again["function"] == "by_size" and again["reason"]
    assert tv.dry_run(lambda x: x.relu() * 2, [ranged]).data["recompilations"] == []


def test_flops_and_weights():
    network = NETWORKS["ConvNeXt"]
    model, inputs = network.make(True), network.inputs(2, True, 0)
    report = tv.dry_run(model, inputs)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**inputs)
    assert report.data["flops"] == counter.get_total_flops() > 0
    held = sum(p.numel() * p.element_size() for p in model.parameters())
    assert 0 <= held - report.data["weight_bytes"] < 16


def test_flops_of_attention():
    q = torch.randn(2, 4, 16, 8)
    report = tv.dry_run(nn.functional.scaled_dot_product_attention, [q, q, q])
    assert report.data["flops"] == 2 * 2 * (2 * 4 * 16 * 16 * 8)
    report = tv.dry_run(nn.Linear(8, 3).eval(), [torch.randn(5, 8)])
    assert report.data["flops"] == 2 * 5 * 8 * 3


def test_flops_of_gradients():
    """Those of a weight in groups are as many as the convolution's; torch's counter has them as if
    each channel met all others."""
    report = tv.dry_run(nn.Conv2d(4, 4, 3, groups=2).train(), [torch.randn(2, 4, 8, 8)])
    forward = 2 * (2 * 4 * 6 * 6) * (2 * 3 * 3)
    assert {g["kind"]: g["flops"] for g in report.data["graphs"]} == {
        "forward": forward, "backward": forward}


def test_flops_of_complex_products():
    """No registration counts them, and torch's counter knows no product with a vector."""
    class Turned(nn.Module):
        def forward(self, matrix, vector):
            return torch.mv(matrix, vector)

    given = [torch.randn(6, 8, dtype=torch.complex64), torch.randn(8, dtype=torch.complex64)]
    assert tv.dry_run(Turned(), given, min_block_size=1).data["flops"] == 2 * 6 * 8


def test_recommends_a_size_and_operators():
    report = broken(min_block_size=50)
    assert report.coverage == 0 and report.engines == []
    rows = report.data["min_block_size"]
    assert rows[0]["engines"] == 3 and rows[-1]["engines"] == 0
    size = report.recommended_min_block_size
    assert broken(min_block_size=size).data["engines"] == 3
    (row, *_) = broken().data["support_first"]
    assert row["operator"] == "aten::linalg_matrix_exp"
    assert (row["engines_before"], row["engines"]) == (3, 2)
    assert "aten::linalg_matrix_exp: 3 -> 2 engines" in str(broken())


def test_infinite_size_describes_the_default():
    report = broken(min_block_size=math.inf)
    assert report.data["settings"]["min_block_size"] == 5
    assert report.engines == broken().engines != []


def test_dynamic_shapes_are_named():
    ranged = tv.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(16, 8))
    report = tv.dry_run(nn.Linear(8, 3).eval(), [ranged], min_block_size=1)
    (engine,) = report.engines
    assert isinstance(engine["inputs"][0]["shape"][0], str)
    assert engine["outputs"][0]["shape"][1] == 3


def test_training():
    model = Broken().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    report = validate(tv.dry_run(model, [torch.randn(8, 8)]))
    assert {g["kind"] for g in report.data["graphs"]} == {"forward", "backward"}
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    assert all(p.grad is None for p in model.parameters())
    torch.random.set_rng_state(state)


def test_targets(device, tmp_path):
    model, x = nn.Linear(4, 4).eval(), [torch.randn(2, 4)]
    path = tmp_path / "profile.json"
    path.write_text(device.profile())
    names = {tv.dry_run(model, x, target).data["target"]
             for target in (device, device.index, device.name, path, str(path), device.profile())}
    assert names == {device.name}
    assert tv.dry_run(model, x).data["target"] != device.name
    # A device without 8-bit storage holds no bools.
    weak = json.loads(device.profile()) | {"storage8": False, "name": "weak"}
    report = tv.dry_run(lambda t: (t > 0).logical_not(), x, json.dumps(weak), min_block_size=1)
    assert report.coverage == 0 and "needs a device with 8-bit storage" in str(report)
    with pytest.raises(ValueError, match="target"):
        tv.dry_run(model, x, 1.5)


def test_exported_program():
    program = torch.export.export(nn.Linear(4, 4).eval(), (torch.randn(2, 4),))
    report = validate(tv.dry_run(program, min_block_size=1))
    assert len(report.engines) == 1 and report.data["exportable"] is True


@pytest.mark.parametrize("model,inputs,message", [
    (3, [], "want a module"), (nn.Linear(2, 2), 3, "want a list"),
])
def test_bad_arguments(model, inputs, message):
    with pytest.raises(ValueError, match=message):
        tv.dry_run(model, inputs)


class Page(HTMLParser):
    """Checks that tags nest, and collects what would be loaded."""

    def __init__(self, text):
        super().__init__()
        self.open, self.loaded, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.loaded += [v for k, v in attrs if k in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_html(tmp_path):
    report = broken(torch_executed_ops=("aten::tanh",))
    page = Page(report.to_html(tmp_path / "report.html"))
    assert page.loaded == [] and "url(" not in report.to_html()
    for said in ("no converter for aten::linalg_matrix_exp", "first", "norm", "engine_0", "a graph",
                 "Effect of min_block_size", "test_dry_run.py:"):
        assert said in page.text, said
    assert (tmp_path / "report.html").read_text() == report.to_html()
    report.data["model"] = "<script>"
    assert "<script>" not in report.to_html()


class Rows(Page):
    """The lines of the tree of modules: name, nodes in engines, engines."""

    def __init__(self, text):
        self.rows, self._row = [], None
        super().__init__(text)

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        if "row" in dict(attrs).get("class", "").split():
            self._row = []
            self.rows.append(self._row)

    def handle_data(self, data):
        super().handle_data(data)
        if self._row is not None and self.open and self.open[-1] == "span":
            self._row.append(data)


def test_html_of_modules():
    """Each node is in one line below its module's; those of the module's own code, too."""
    report = broken(min_block_size=1, torch_executed_ops=("aten::addmm",))
    heads, *rows = Rows(report.to_html()).rows
    assert heads == ["module", "coverage", "in engines", "FLOPs"]
    nodes = {name: tuple(map(int, said.split(" of "))) for name, said, *_ in rows}
    assert list(nodes) == ["model", "first", "norm", "last", "outside of these"]
    assert nodes["model"] == (report.data["covered_nodes"], report.data["compute_nodes"])
    assert [sum(n) for n in zip(*list(nodes.values())[1:])] == list(nodes["model"])
    assert nodes["first"] == (0, 1) and nodes["norm"] == (1, 1)


def test_html_tells_a_newcomer():
    page = Page(broken().to_html()).text
    assert "for the built-in default, a discrete GPU of the middle range, would give" in page
    assert "Why it cannot be exported" not in page and "weights are arguments" not in page
    sizes = [{"min_block_size": n} for n in (1, 4, 9)]
    for now, best, notes in ((4, 4, ["", "recommended; this report's setting", ""]),
                             (5, 1, ["recommended", "the same as this report's, 5", ""])):
        assert notes == size_notes({"settings": {"min_block_size": now}, "min_block_size": sizes,
                                    "recommended_min_block_size": best})
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    page = Page(tv.dry_run(model, [torch.randn(2, 4)], min_block_size=1).to_html()).text
    assert "of training graphs, weights are arguments" in page


class Branches(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Chooses(nn.Module):
    def forward(self, x):
        y = x[x > 0]
        return torch.relu(y) if y.shape[0] > 3 else y


@pytest.mark.parametrize("model", [Branches(), Chooses()])
def test_why_it_cannot_be_exported(model):
    """The user's own line, and what to do; torch's text is of symbols that nobody wrote."""
    report = tv.dry_run(model, [torch.ones(4)])
    reason = report.data["export_reason"]
    assert not report.data["exportable"]
    assert re.match(r"test_dry_run.py:\d+: the code takes a path, a size or a number", reason)
    assert "torch.where" in reason and "Eq(" not in reason
    page = Page(report.to_html()).text
    assert "Why it cannot be exported and saved" in page and reason in page


def test_compile_prints_and_writes(tmp_path, capfd):
    x = torch.randn(8, 8)
    model = Broken().eval()
    for options in ({"dryrun": True}, {"min_block_size": math.inf}):
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(model, backend="vulkan", options=options)(x)
        out = capfd.readouterr().out
        assert "no converter for aten::linalg_matrix_exp" in out and "Graph breaks" in out
        assert re.search(r"2 engines", out) and "\033[" not in out
    for name in ("report.json", "report.html", "report.txt"):
        torch._dynamo.reset()
        with torch.no_grad():
            fast = torch.compile(model, backend="vulkan", options={"dryrun": tmp_path / name})
            torch.testing.assert_close(fast(x), model(x))
    data = json.loads((tmp_path / "report.json").read_text())
    jsonschema.validate(data, json.loads(SCHEMA.read_text()))
    assert len(data["graphs"]) == 2 and data["exportable"] is False
    assert "Left to PyTorch" in Page((tmp_path / "report.html").read_text()).text
    assert "Left to PyTorch" in (tmp_path / "report.txt").read_text()


MODELS = '''
import torch
def network():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
def with_inputs():
    return network(), (torch.randn(2, 8),)
def random():
    return lambda x: torch.linalg.matrix_exp(x)
'''


def coverage(tmp_path, *arguments):
    (tmp_path / "some_models.py").write_text(MODELS)
    return subprocess.run([sys.executable, "-m", "torch_vulkan", "coverage", *arguments],
                          capture_output=True, text=True, cwd=tmp_path)


def test_command(tmp_path):
    done = coverage(tmp_path, "some_models:with_inputs", "--json", "r.json", "--html", "r.html",
                    "--set", "min_block_size=1", "--min-coverage", "0.98")
    assert done.returncode == 0, done.stderr
    assert "100.0% of 2 compute nodes in 1 engine" in done.stdout and "\033[" not in done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["engines"] == 1
    Page((tmp_path / "r.html").read_text())
    done = coverage(tmp_path, "some_models:random", "--input", "2..4x8x8", "--json", "-",
                    "--min-coverage", "0.98")
    assert done.returncode == 1 and "is below 98.0%" in done.stderr
    assert json.loads(done.stdout)["coverage"] < 0.98


@pytest.mark.parametrize("arguments,status,message", [
    (["some_models"], 2, "want MODULE:CALLABLE"), (["some_models:nothing"], 1, "has no 'nothing'"),
    (["some_models:network"], 1, "--input"),
    (["some_models:network", "--input", "2xa"], 2, "want e.g."),
    (["some_models:network", "--input", "2x8", "--set", "min_blok_size=1"], 1, "did you mean"),
])
def test_command_line_errors(tmp_path, monkeypatch, capsys, arguments, status, message):
    from torch_vulkan.__main__ import main

    (tmp_path / "some_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        got = main(["coverage", *arguments])
    except SystemExit as stopped:
        got = stopped.code
    assert got == status and message in capsys.readouterr().err


class Writes(torch.nn.Module):
    """Buffers that are written in all ways that a report tells apart."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)
        for name in ("kept", "window"):
            self.register_buffer(name, torch.zeros(8, 6))
        self.register_buffer("complex", torch.zeros(2, 6, dtype=torch.complex64))

    def forward(self, x):
        y = self.linear(x)
        self.kept[2:4] = y
        self.window.copy_(torch.cat([self.window[2:], y]))
        self.complex.copy_(torch.complex(y, y))
        return self.kept.sum() + self.window.sum()


def test_inputs_that_are_written():
    """Where they lie, or copied, and why."""
    with torch.no_grad():
        report = validate(tv.dry_run(Writes().eval(), [torch.randn(2, 6)], min_block_size=1))
    (graph,) = report.data["graphs"]
    writes = {write["input"]: write for write in graph["writes"]}
    assert {*writes} == {"kept", "window", "complex"}
    for name in ("kept", "window"):
        assert writes[name]["in_place"] and writes[name]["engine"], writes[name]
        assert f"{name} float32[8, 6]: written in place by engine_" in str(report)
    assert writes["complex"] == writes["complex"] | {
        "in_place": False, "engine": None, "bytes": 96,
        "reason": "engines hold no torch.complex64"}
    assert "complex complex64[2, 6]: copied, 96 B a call by PyTorch: engines hold" in str(report)
    assert "Inputs that are written" in report.to_html()


def test_why_an_engine_copies_what_it_writes():
    def old_and_new(cache, k):
        before = cache * 2
        cache[2:4] = k
        return before + cache

    with torch.no_grad():
        report = validate(tv.dry_run(old_and_new, [torch.randn(8, 6), torch.randn(2, 6)],
                                     min_block_size=1))
    (write,) = report.data["graphs"][0]["writes"]
    assert write["engine"] == "engine_0" and not write["in_place"]
    assert "reads the older contents behind the write" in write["reason"], write
