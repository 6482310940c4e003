"""Where files are written: what is no regular file is written into, links stay, modes are as the
umask says. For all that writes a file a user named, in Python and in vkexec."""

import contextlib
import json
import os
import stat
import subprocess
import threading

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._base import whole_files
from torch_vulkan._program.profiling import LayerTimes

from marks import turns
from vkexec_helpers import ONCE, run
from workloads.patience import patience


@pytest.fixture(scope="module")
def program():
    torch._dynamo.reset()
    return tv.compile(nn.Linear(8, 3), [torch.randn(4, 8)], min_block_size=1)


@pytest.fixture(scope="module")
def writers(program, tmp_path_factory):
    """Name → what writes a file, by all writers of the package."""
    (engine,) = tv.engines(program)
    cache = tmp_path_factory.mktemp("cache")  # all of another test's would be written each time
    tv.compile(nn.Linear(8, 3), [torch.randn(4, 8)], min_block_size=1, cache_built_engines=True,
               engine_cache_dir=str(cache))
    assert tv.cache.entries(cache)
    report = tv.dry_run(nn.Linear(8, 3), [torch.randn(4, 8)])
    return {
        "net.pt2": lambda path: tv.save(program, path, output_format="exported_program"),
        "net.pt": lambda path: tv.save(program, path, output_format="torchscript"),
        "net.vke": engine.save,
        "report.html": report.to_html, "report.json": report.to_json, "report.txt": report.save,
        "profile.json": LayerTimes().to_json, "profile.svg": LayerTimes().save,
        "bundle": lambda path: tv.cache.export_bundle(path, cache),
    }


# What vkexec writes, by flag.
FLAGS = {"--saveEngine": "net.vke", "--exportTimes": "times.json", "--exportOutput": "out.json",
         "--exportProfile": "profile.svg", "--exportLayerInfo": "layers.json",
         "--exportGraph": "graph.svg"}  # --timingCacheFile: tests/cpp/runtime/base/test_file.cpp


@pytest.fixture(scope="module")
def engine(program, tmp_path_factory):
    path = tmp_path_factory.mktemp("engine") / "net.vke"
    tv.engines(program)[0].set_weights(list(program.parameters()))
    tv.engines(program)[0].save(path)
    return path


@contextlib.contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@turns(3, group="kinds of files")
def test_links_are_followed(writers, tmp_path):
    (tmp_path / "there").mkdir()
    for name, write in writers.items():
        link = tmp_path / name
        link.symlink_to(f"there/{name}")  # its target is missing at first
        for _ in range(2):
            write(link)
            assert link.is_symlink(), name
            assert (tmp_path / "there" / name).stat().st_size > 0
    assert sorted(f.name for f in (tmp_path / "there").iterdir()) == sorted(writers)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic link"):
        whole_files.write_text(tmp_path / "loop", "text", "test")
    assert (tmp_path / "loop").is_symlink()


@turns(3, group="kinds of files")
def test_fifos_are_written_into(writers, tmp_path):
    for name, write in writers.items():
        path = tmp_path / name
        os.mkfifo(path)
        got = []
        reader = threading.Thread(target=lambda path=path, got=got: got.append(path.read_bytes()))
        reader.start()
        write(path)
        reader.join(60)
        assert got and got[0], name
        assert path.is_fifo()


@turns(3, group="kinds of files")
def test_devices_are_written_into(writers, tmp_path):
    null, full = tmp_path / "null.json", tmp_path / "full.json"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        null.write_bytes(b"")
    except OSError:
        pytest.skip("devices cannot be made here")
    for write in writers.values():
        if write != writers["profile.svg"]:
            write(null)
            with pytest.raises(OSError, match="No space"):
                write(full)
    assert null.is_char_device() and full.is_char_device()
    assert len([*tmp_path.iterdir()]) == 2


def test_descriptors_are_written_into(tmp_path):
    with open(tmp_path / "out", "wb") as file:
        file.write(b"before ")
        file.flush()
        whole_files.write_text(f"/dev/fd/{file.fileno()}", "text", "test")
        file.write(b" after")
    assert (tmp_path / "out").read_bytes() == b"before text after"


@turns(3, group="kinds of files")
def test_modes_are_as_the_umask_says(writers, tmp_path):
    for mask in (0o022, 0o077):
        with umask(mask):
            for name, write in writers.items():
                path = tmp_path / f"{mask}_{name}"
                write(path)
                private = name == "bundle"  # of the cache
                assert mode(path) == (0o600 if private else 0o666 & ~mask), name
    path = tmp_path / "18_net.vke"
    path.chmod(0o640)
    writers["net.vke"](path)
    assert mode(path) == 0o640, "what is replaced keeps its mode"


def test_threads_write_the_same_file(tmp_path):
    """Each its own until it is whole: the last to end wins."""
    with whole_files.written(tmp_path / "net", "test") as one:
        one.write(b"first")
        with whole_files.written(tmp_path / "net", "test") as other:
            other.write(b"second, longer")
        assert (tmp_path / "net").read_bytes() == b"second, longer"
    assert (tmp_path / "net").read_bytes() == b"first"
    assert len([*tmp_path.iterdir()]) == 1


def test_long_names(tmp_path):
    whole_files.write_text(tmp_path / ("n" * 255), "text", "test")
    assert (tmp_path / ("n" * 255)).read_text() == "text"
    with pytest.raises(OSError, match="too long"):
        whole_files.write_text(tmp_path / ("n" * 256), "text", "test")
    assert len([*tmp_path.iterdir()]) == 1


def vkexec(engine, folder):
    """All that vkexec writes, into a folder."""
    flags = [f"{flag}={folder / name}" for flag, name in FLAGS.items()]
    run(f"--loadEngine={engine}", *ONCE, *flags)


def test_vkexec_writes_through(engine, tmp_path):
    (tmp_path / "there").mkdir()
    for name in FLAGS.values():
        (tmp_path / name).symlink_to(f"there/{name}")
    with umask(0o027):
        vkexec(engine, tmp_path)
    for name in FLAGS.values():
        assert (tmp_path / name).is_symlink() and mode(tmp_path / "there" / name) == 0o640, name
    assert sorted(f.name for f in (tmp_path / "there").iterdir()) == sorted(FLAGS.values())
    for flag, name in FLAGS.items():
        fifo = tmp_path / f"fifo_{name}"
        os.mkfifo(fifo)
        with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE) as reader:
            try:
                run(f"--loadEngine={engine}", *ONCE, f"{flag}={fifo}")
                assert reader.communicate(timeout=patience(60))[0], name
                assert fifo.is_fifo()
            finally:
                reader.kill()


def test_vkexec_writes_to_its_output(engine, tmp_path):
    link = tmp_path / "stdout"  # as /dev/stdout is
    link.symlink_to("/proc/self/fd/1")
    out = run(f"--loadEngine={engine}", *ONCE, f"--exportTimes={link}")
    assert "latencyMs" in json.loads(out)[0]  # and no line of the log
    assert link.is_symlink()
