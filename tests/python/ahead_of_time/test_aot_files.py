"""Files that tv.load, tv.Engine.load and tv.save cannot take: each says what to do."""

import json
import zipfile

import pytest
import torch
from torch import nn

import torch_vulkan as tv


@pytest.fixture(scope="module")
def program():
    torch._dynamo.reset()
    return tv.compile(nn.Linear(8, 3), [torch.randn(4, 8)], min_block_size=1)


@pytest.fixture(scope="module", params=["net.pt2", "net.pt"])
def path(request, program, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / request.param
    tv.save(program, path, output_format="torchscript" if path.suffix == ".pt" else
            "exported_program")
    return path


def test_other_kinds_of_files(tmp_path, program):
    model = nn.Linear(8, 3)
    x = torch.randn(4, 8)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "plain.pt2")
    torch.jit.trace(model, x).save(tmp_path / "traced.pt")
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    tv.engines(program)[0].save(tmp_path / "engine.vke")
    (tmp_path / "text.pt2").write_text("not a program")
    (tmp_path / "empty.pt2").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("hello", "world")
    for name, message in {
            "plain.pt2": r"without engines: tv\.compile\(torch\.export\.load\(path\)\)",
            "traced.pt": r"torch\.jit\.load reads it",
            "weights.pth": r"checkpoint.*tv\.refit",
            "engine.vke": r"tv\.Engine\.load reads it",
            "text.pt2": "no .pt2 or .pt file",
            "empty.pt2": "no .pt2 or .pt file",
            "archive.zip": "tv.save did not write"}.items():
        with pytest.raises(ValueError, match=message):
            tv.load(tmp_path / name)
    with pytest.raises(IsADirectoryError, match="is a directory, want a .pt2"):
        tv.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        tv.load(tmp_path / "missing.pt2")
    with pytest.raises(ValueError, match="on_mismatch: got 'maybe'"):
        tv.load(tmp_path / "plain.pt2", on_mismatch="maybe")


def test_cut_short(path, tmp_path):
    data = path.read_bytes()
    for end in (1, 30, len(data) // 3, len(data) // 2, len(data) - 100, len(data) - 1):
        cut = tmp_path / path.name
        cut.write_bytes(data[:end])
        with pytest.raises(ValueError, match="cut short|copy"):
            tv.load(cut)


def rewritten(path, target, change):
    """A copy of an archive with one of its files changed."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as archive:
        for item in source.infolist():
            archive.writestr(item, change(item.filename, source.read(item)))


def test_later_format(path, tmp_path):
    def later(name, data):
        if not name.endswith("extra/torch_vulkan.json"):
            return data
        return json.dumps({**json.loads(data), "format": 2}).encode()

    rewritten(path, tmp_path / path.name, later)
    with pytest.raises(ValueError, match="format version 2, this torch_vulkan reads version 1: "
                                         "upgrade"):
        tv.load(tmp_path / path.name)


def test_altered_description(path, tmp_path):
    for text in (b"", b"{", b"[]", b'{"format": 1}', b"\xff"):
        rewritten(path, tmp_path / path.name,
                  lambda name, data, text=text: text if name.endswith(
                      "extra/torch_vulkan.json") else data)
        with pytest.raises(ValueError, match="damaged|cannot be read"):
            tv.load(tmp_path / path.name)


def test_saving_elsewhere(program, tmp_path):
    with pytest.raises(IsADirectoryError, match="want the name of a file"):
        tv.save(program, tmp_path)
    with pytest.raises(FileNotFoundError):
        tv.save(program, tmp_path / "missing" / "net.pt2")
    with pytest.raises(ValueError, match="output_format: got 'onnx'"):
        tv.save(program, tmp_path / "net", output_format="onnx")
    with pytest.raises(ValueError, match="tv.save: got Linear"):
        tv.save(nn.Linear(1, 1), tmp_path / "net.pt2")
    with pytest.raises(ValueError, match="tv.engines: got Linear"):
        tv.engines(nn.Linear(1, 1))
    assert not [*tmp_path.iterdir()]


def test_a_file_is_replaced_whole(program, path):
    before = path.read_bytes()

    class Broken:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            raise RuntimeError("stopped half way")

    damaged = tv.Program.__new__(tv.Program)
    nn.Module.__init__(damaged)
    damaged.signature = Broken(program.signature)
    with pytest.raises(RuntimeError, match="stopped half way"):
        tv.save(damaged, path)
    assert path.read_bytes() == before
    assert [*path.parent.iterdir()] == [path]


def test_engine_files(tmp_path, program, path):
    (engine,) = tv.engines(program)
    engine.save(tmp_path / "net.vke")
    with pytest.raises(IsADirectoryError, match="is a directory, want a .vke file"):
        tv.Engine.load(tmp_path)
    with pytest.raises(ValueError, match="tv.save: got an empty path"):
        tv.save(program, "")
    with pytest.raises(FileNotFoundError,
                       match="there is no folder .*/none: make it first: '.*/none/net.pt2'"):
        tv.save(program, tmp_path / "none" / "net.pt2")
    with pytest.raises(OSError, match="too long: '.*/xxx"):
        tv.save(program, tmp_path / ("x" * 300 + ".pt2"))
    with pytest.raises(IsADirectoryError, match="is a directory, want the name of a file"):
        engine.save(tmp_path)
    with pytest.raises(FileNotFoundError):
        engine.save(tmp_path / "missing" / "net.vke")
    assert [file.name for file in tmp_path.iterdir()] == ["net.vke"]
    with pytest.raises(ValueError, match="not a .vke file.*net.pt"):
        tv.Engine.load(path)
    data = (tmp_path / "net.vke").read_bytes()
    for end in (0, 8, 63, len(data) // 2, len(data) - 1):
        (tmp_path / "cut.vke").write_bytes(data[:end])
        with pytest.raises(ValueError, match="empty|truncated|altered|not a .vke"):
            tv.Engine.load(tmp_path / "cut.vke")


class Named(nn.Module):
    def forward(self, x):
        return x * 2, "name"


class Writes(nn.Module):
    def forward(self, x):
        return x.add_(1)


@pytest.mark.parametrize("model, message", [(Named(), "result 1 is the string 'name'"),
                                            (Writes(), "return another value, too")])
def test_what_torch_export_could_not_read_back_is_not_written(model, message, tmp_path):
    program = tv.compile(model, [torch.ones(4, 3)], min_block_size=1)
    with pytest.raises(ValueError, match=message):
        tv.save(program, tmp_path / "net.pt2")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("others", [None, {"note": "mine"}])
@pytest.mark.parametrize("traced", [False, True])
def test_what_torch_saves_again(traced, others, tmp_path):
    """torch.jit.save leaves out the digest and what tv.save wrote beside the code."""
    model, x = nn.Linear(8, 3).requires_grad_(False), torch.randn(4, 8)
    program = tv.compile(torch.jit.trace(model, x) if traced else model, [x], min_block_size=1)
    tv.save(program, tmp_path / "net.pt", output_format="torchscript")
    read = torch.jit.load(tmp_path / "net.pt")
    for weight, theirs in zip(read.parameters(), model.parameters(), strict=True):
        weight.mul_(2)
        assert torch.equal(weight / 2, theirs)
    torch.jit.save(read, tmp_path / "again.pt", _extra_files=others)
    loaded = tv.load(tmp_path / "again.pt")
    assert isinstance(loaded, torch.jit.ScriptModule) == traced
    assert type(loaded) is type(tv.load(tmp_path / "net.pt")) and len(tv.engines(loaded)) == 1
    torch.testing.assert_close(loaded(x), 2 * model(x))
    tv.save(loaded, tmp_path / "third.pt")
    torch.testing.assert_close(tv.load(tmp_path / "third.pt")(x), 2 * model(x))
    if not traced:
        tv.refit(loaded, model)
        torch.testing.assert_close(loaded(x), model(x))

    data = (tmp_path / "again.pt").read_bytes()
    for end in (30, len(data) // 2, len(data) - 1):
        (tmp_path / "cut.pt").write_bytes(data[:end])
        with pytest.raises(ValueError, match="cut short|copy"):
            tv.load(tmp_path / "cut.pt")
    place = data.index(next(iter(read.parameters())).numpy().tobytes())
    flipped = bytes([data[place] ^ 1])
    (tmp_path / "flipped.pt").write_bytes(data[:place] + flipped + data[place + 1:])
    with pytest.raises(ValueError, match="copy it again"):
        tv.load(tmp_path / "flipped.pt")
