"""The cache of engines, through torch.compile and the command line."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan.__main__ import main
from torch_vulkan._fx import engine_call

from helpers import assert_same, vulkan


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "cache"


class Counting:
    """What the cache did inside the block."""

    KEYS = ("hit", "miss", "bad", "evicted", "bypass", "written")

    def __enter__(self):
        self._before = tv.cache.stats()
        return self

    def __exit__(self, *error):
        after = tv.cache.stats()
        for key in self.KEYS:
            setattr(self, key, after[key] - self._before[key])
        self.reasons = {reason for reason, count in after["reasons"].items()
                        if count > self._before["reasons"].get(reason, 0)}


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)).requires_grad_(False)


def run(model, directory, **options):
    torch._dynamo.reset()
    x = torch.randn(3, 6)
    with Counting() as counted:
        assert_same(vulkan(model, engine_cache_dir=directory, **options)(x), model(x))
    return counted


def test_the_same_architecture_with_other_weights_is_a_hit(directory):
    first = run(network(), directory)
    assert (first.miss, first.written, first.hit) == (1, 1, 0)
    for seed in (1, 2):
        again = run(network(seed), directory)
        assert (again.hit, again.miss) == (1, 0)
        assert again.reasons == {"hit: in the cache"}


def test_a_setting_that_changes_code_is_a_miss(directory):
    run(network(), directory)
    assert run(network(), directory, workspace_size=1 << 20).miss == 1
    assert run(network(), directory, min_block_size=2).hit == 1


@pytest.mark.setting("cache_built_engines", "reuse_cached_engines")
def test_switches(directory):
    assert run(network(), directory, cache_built_engines=False).written == 0
    assert not directory.exists()
    assert run(network(), directory, reuse_cached_engines=False).written == 1
    assert run(network(), directory, reuse_cached_engines=False).hit == 0
    off = run(network(), directory, reuse_cached_engines=False, cache_built_engines=False)
    assert (off.bypass, off.hit, off.miss) == (1, 0, 0)
    assert run(network(), directory, cache_built_engines=False).hit == 1


@pytest.mark.setting("engine_cache_size")
def test_engine_cache_size(directory):
    run(network(), directory)
    (entry,) = (e for e in tv.cache.entries(directory) if e.kind == "engines")
    os.utime(entry.path, (1, 1))

    def other(x):
        return torch.relu(x @ x.t())  # a smaller engine

    torch._dynamo.reset()
    with Counting() as counted:
        vulkan(other, engine_cache_dir=directory, engine_cache_size=entry.size_bytes + 1000)(
            torch.randn(3, 6))
    assert counted.evicted == 1
    assert not Path(entry.path).exists()


SCRIPT = """
import json, sys, torch
from torch import nn
import torch_vulkan as tv
from torch_vulkan._native import C
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                      nn.Linear(4 * 6 * 6, 5)).eval().requires_grad_(False)
x = torch.randn(2, 3, 8, 8)
fast = torch.compile(model, backend="vulkan",
                     options={"min_block_size": 1, "engine_cache_dir": sys.argv[1]})
torch.testing.assert_close(fast(x), model(x))
print(json.dumps([{**C.build_counters(), **C.tuner_stats()}, tv.cache.stats()]))
"""


def test_the_second_process_builds_nothing(directory):
    def process(seed):
        done = subprocess.run([sys.executable, "-c", SCRIPT, str(directory), seed], text=True,
                              capture_output=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    built, stats = process("0")
    assert stats["miss"] == stats["written"] == built["engines"] > 0
    assert built["conversions"] > 0 and built["glslang"] > 0
    built, stats = process("1")  # other weights
    assert set(built.values()) == {0}, "no converter, no tuner, no glslang"
    assert stats["hit"] > 0 and stats["miss"] == 0


def test_no_pickle(directory, tmp_path):
    """Neither in the cache nor in .vke files, nor on the way there: nothing is unpickled."""
    found, watching = [], True

    def hook(event, args):
        if watching and event.startswith("pickle."):
            found.append((event, args))

    sys.addaudithook(hook)
    pickle.loads(pickle.dumps(Counting))
    assert found, "the hook sees unpickling"
    found.clear()
    for expected in ("miss", "hit"):
        builder = tv.Builder()
        x = builder.input("x", (3, 5))
        builder.output("y", builder.op("aten::mm", x, builder.weight("w", torch.ones(5, 4))))
        with Counting() as counted:
            engine = builder.build(engine_cache_dir=directory)
        assert getattr(counted, expected) == 1
    engine.save(tmp_path / "net.vke")
    tv.Engine.load(tmp_path / "net.vke").run({"x": torch.ones(3, 5)})
    tv.cache.export_bundle(tmp_path / "bundle", directory)
    tv.cache.import_bundle(tmp_path / "bundle", tmp_path / "other")
    watching = False
    assert found == []


def test_twelve_equal_blocks_are_one_build(directory):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(hidden_size=16, num_attention_heads=2, intermediate_size=32,
                                     num_hidden_layers=12)
    torch.manual_seed(0)
    bert = transformers.BertModel(config, add_pooling_layer=False).eval().requires_grad_(False)
    x = torch.randn(1, 7, 16)
    names = []
    with Counting() as counted:
        for block in bert.encoder.layer:
            torch._dynamo.reset()  # or torch itself would take the first one's code
            calls = []
            with engine_call.collected(calls), torch.no_grad():
                fast = vulkan(block, engine_cache_dir=directory)(x)
            assert_same(fast, block(x))
            names += [layer["module_path"] for call in calls
                      for layer in tv.Engine(call.vke()).info()["layers"]]
    assert (counted.miss, counted.written, counted.hit) == (1, 1, 11)
    assert len({*names}) > 1


class Named(nn.Module):
    """One network whose parts have the names that are asked for."""

    def __init__(self, one, two):
        super().__init__()
        self.names = one, two
        setattr(self, one, nn.Linear(6, 5))
        setattr(self, two, nn.Linear(5, 4))

    def forward(self, x):
        one, two = (getattr(self, name) for name in self.names)
        return two(torch.tanh(one(x)))


def test_a_hit_reports_the_names_of_its_own_network(directory):
    calls = []
    with engine_call.collected(calls):
        first = run(Named("alpha", "beta").requires_grad_(False), directory)
        second = run(Named("gamma", "delta").requires_grad_(False), directory)
    assert (first.miss, second.hit) == (1, 1)
    texts = [json.dumps(tv.Engine(call.vke()).info()) for call in calls]
    assert "alpha" in texts[0] and "gamma" not in texts[0]
    assert "gamma" in texts[1] and "delta" in texts[1]
    assert "alpha" not in texts[1] and "beta" not in texts[1] and "#" not in texts[1]


def test_dynamic_shapes_are_cached(directory):
    model = network()
    for expected in ("miss", "hit"):
        torch._dynamo.reset()
        with Counting() as counted:
            fast = vulkan(model, dynamic=True, engine_cache_dir=directory)
            for rows in (3, 7):
                x = torch.randn(rows, 6)
                assert_same(fast(x), model(x))
        assert getattr(counted, expected) == 1 and counted.hit + counted.miss == 1


@pytest.mark.parametrize("put", [
    lambda path: None, lambda path: path.symlink_to(path.parent / "nowhere"),
    lambda path: path.mkdir(0o500)],
    ids=["nothing", "a link to nothing", "a folder of its reader"])
def test_the_folder_is_replaced_meanwhile(directory, put):
    """Engines are built all the same, and kept again once there is a folder."""
    run(network(), directory)
    directory.rename(directory.parent / "aside")
    put(directory)
    assert run(network(1), directory).bad == 0
    if directory.is_dir():
        directory.chmod(0o700)
        shutil.rmtree(directory)
    else:
        directory.unlink(missing_ok=True)
    (directory.parent / "aside").rename(directory)
    assert run(network(2), directory).hit == 1


def test_a_file_takes_the_place_of_the_folder(directory):
    """That is the setting's error, and names it; with the folder back, all is as before."""
    run(network(), directory)
    directory.rename(directory.parent / "aside")
    directory.write_text("no folder")
    with pytest.raises(ValueError, match="engine_cache_dir: got .*a directory, not of a file"):
        run(network(1), directory)
    assert directory.read_text() == "no folder"
    directory.unlink()
    (directory.parent / "aside").rename(directory)
    assert run(network(2), directory).hit == 1


def test_immutable_weights_are_in_the_key(directory):
    assert run(network(), directory, immutable_weights=True).miss == 1
    assert run(network(), directory, immutable_weights=True).hit == 1
    assert run(network(1), directory, immutable_weights=True).miss == 1
    assert run(network(1), directory).miss == 1


def test_no_home(directory):
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    script = SCRIPT.replace(', "engine_cache_dir": sys.argv[1]', "")
    done = subprocess.run([sys.executable, "-c", script, str(directory), "0"], text=True,
                          capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    _, stats = json.loads(done.stdout.splitlines()[-1])
    assert stats["bypass"] > 0 and stats["hit"] == stats["miss"] == 0
    assert "bypass: there is no cache directory" in stats["reasons"]


def test_entries_verify_and_clear(directory):
    run(network(), directory)
    entries = tv.cache.entries(directory)
    kinds = {entry.kind for entry in entries}  # no kernel where this process had compiled it before
    assert {"engines"} <= kinds <= {"engines", "spirv"}
    engine = next(e for e in entries if e.kind == "engines")
    key = engine.key()
    assert "optimization_level" in key and "aten::addmm" in key and "sources " in key
    assert tv.cache.verify(directory) == tv.cache.Verified(len(entries), {})
    data = bytearray(Path(engine.path).read_bytes())
    data[100] ^= 1
    Path(engine.path).write_bytes(data)
    assert tv.cache.verify(directory) == tv.cache.Verified(
        len(entries) - 1, {engine.path: "it is not a whole entry"})
    assert run(network(), directory).bad == 1
    assert [e.state for e in tv.cache.entries(directory)].count("bad") == 1
    assert tv.cache.clear(directory) == len(entries)
    assert tv.cache.entries(directory) == []
    assert run(network(), directory).miss == 1


def test_a_directory_that_others_can_read_is_refused(directory):
    directory.mkdir(mode=0o755)
    counted = run(network(), directory)
    assert counted.bypass == 1 and any("chmod 700" in reason for reason in counted.reasons)
    with pytest.raises(ValueError, match="other users can look into it; close it with chmod 700"):
        tv.cache.entries(directory)
    assert [*directory.iterdir()] == []


def test_a_bundle_ships_the_cache(directory, tmp_path, capsys):
    run(network(), directory)
    there = tmp_path / "there"
    assert main(["cache", "--dir", str(directory), "export", str(tmp_path / "bundle")]) == 0
    assert main(["cache", "--dir", str(there), "import", str(tmp_path / "bundle")]) == 0
    assert run(network(), there).hit == 1
    count = len(tv.cache.entries(directory))
    assert f"{count} entries taken from" in capsys.readouterr().out
    assert not [f for f in tmp_path.iterdir() if f.name.startswith(".")]


def test_bundles_that_are_none(directory, tmp_path):
    run(network(), directory)
    tv.cache.export_bundle(tmp_path / "bundle", directory)
    good = (tmp_path / "bundle").read_bytes()
    other = tmp_path / "other"

    def refused(data, message):
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(ValueError, match=message):
            tv.cache.import_bundle(tmp_path / "bad", other)

    refused(b"not an archive at all", "is not a bundle")
    refused(b"", "is not a bundle")
    for size in range(600, len(good) - 20480, 1777):
        (tmp_path / "bad").write_bytes(good[:size])
        try:
            tv.cache.import_bundle(tmp_path / "bad", other)
        except ValueError:
            pass
        assert not tv.cache.verify(other).bad
    refused(good.replace(b"TVSTORE", b"TVSTORM"), "it is not a whole entry")
    name = next(e.name for e in tv.cache.entries(directory) if e.kind == "engines").encode()
    escaped = b"../../" + name[6:]
    refused(_with_header(good, b"engines/" + name, b"engines/" + escaped), "is not an entry")
    with pytest.raises(OSError):
        tv.cache.import_bundle(tmp_path / "missing", other)
    with pytest.raises(IsADirectoryError, match="is a directory, want the file that"):
        tv.cache.import_bundle(tmp_path, other)
    with pytest.raises(IsADirectoryError, match="is a directory, want the name of a file"):
        tv.cache.export_bundle(tmp_path, directory)


def _with_header(archive, old, new):
    """The archive with a member renamed, its checksum right."""
    import io
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as source, tarfile.open(
            fileobj=out, mode="w") as target:
        for member in source:
            data = source.extractfile(member)
            if member.name == old.decode():
                member.name = new.decode()
            target.addfile(member, data)
    return out.getvalue()


def test_command_line(directory, capsys):
    run(network(), directory)
    assert main(["cache", "--dir", str(directory), "info"]) == 0
    out = capsys.readouterr().out
    assert str(directory) in out and "engines: 1 entries" in out and "glslang" in out
    assert main(["cache", "--dir", str(directory), "list", "--keys"]) == 0
    assert "aten::addmm" in capsys.readouterr().out
    assert main(["cache", "--dir", str(directory), "verify"]) == 0
    entry = tv.cache.entries(directory)[0]
    Path(entry.path).write_bytes(b"damaged")
    assert main(["cache", "--dir", str(directory), "verify"]) == 1
    assert entry.path in capsys.readouterr().err
    assert main(["cache", "--dir", str(directory), "clear"]) == 0
    assert tv.cache.entries(directory) == []
    directory.chmod(0o755)
    assert main(["cache", "--dir", str(directory), "info"]) == 1
    assert "chmod 700" in capsys.readouterr().err
    with pytest.raises(SystemExit) as status:
        main(["cache", "nonsense"])
    assert status.value.code == 2
