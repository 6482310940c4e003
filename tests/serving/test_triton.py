"""Triton's backend: a server's configurations, results, batches, errors and statistics."""

import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import served

from seeds import SEED
from workloads import triton_process
from workloads.patience import patience
from workloads.triton_process import Refused, Server, add_model

MISSING = triton_process.what_is_missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
ROOT = Path(__file__).parents[2]
WIDTH, MOST = 32, served.MOST
DELAY = "dynamic_batching { max_queue_delay_microseconds: 20000 }\n"


def rows(count, seed=0):
    return numpy.random.default_rng(seed).standard_normal((count, WIDTH)).astype(numpy.float32)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return {"one": served.classifier(folder / "one.vke"),
            "two": served.classifier(folder / "two.vke", [served.profile(1, 1, 4),
                                                          served.profile(4, MOST, 24)])}


@pytest.fixture(scope="module")
def server(files, tmp_path_factory):
    """With every model of these tests that loads."""
    folder = tmp_path_factory.mktemp("repository")
    add_model(folder, "plain", files["one"], DELAY)
    # A full batch leaves at once, and none before, however busy the machine is.
    add_model(folder, "together", files["one"], f"max_batch_size: {MOST}\ndynamic_batching {{ "
              f"preferred_batch_size: [{MOST}], max_queue_delay_microseconds: 30000000 }}\n")
    add_model(folder, "profiles", files["two"])
    add_model(folder, "several", files["one"], DELAY + "instance_group [{ kind: KIND_CPU, "
              'count: 3 }]\nparameters { key: "device", value: { string_value: "0" } }\n')
    add_model(folder, "whole", files["one"], "max_batch_size: 0\n"
              'input [{ name: "x", data_type: TYPE_FP32, dims: [-1, 32] }]\n')
    add_model(folder, "warm", files["one"], "max_batch_size: 8\nmodel_warmup [{ name: 'zeros', "
              "batch_size: 8, inputs { key: 'x', value: { data_type: TYPE_FP32, dims: [32], "
              "zero_data: true } } }]\n")
    add_model(folder, "lookup", served.embedding()[0], DELAY + "max_batch_size: 16\n"
              'parameters { key: "optimization_level", value: { string_value: "0" } }\n')
    log = folder.parent / "server.log"
    with Server(folder, log) as made:
        yield made
        assert made.is_alive()


@pytest.fixture
def client(server):
    made = server.client()
    yield made
    made.close()


def at_once(server, model, inputs):
    """Results of requests that are sent at the same time, in their order; Refused where one is."""
    barrier = threading.Barrier(len(inputs))

    def ask(given):
        client = server.client()
        try:
            client.ask("GET", f"/v2/models/{model}/ready")  # connects
            barrier.wait(60)
            return client.infer(model, given)
        except Refused as refused:
            return refused
        finally:
            client.close()

    with ThreadPoolExecutor(len(inputs)) as pool:
        return list(pool.map(ask, inputs))


def counts(client, model):
    """Successes, failures, rows, executions, and executions by their rows."""
    found = client.statistics(model)
    by_rows = {b["batch_size"]: b["compute_infer"]["count"] for b in found.get("batch_stats", [])}
    return (found["inference_stats"].get("success", {}).get("count", 0),
            found["inference_stats"].get("fail", {}).get("count", 0),
            found.get("inference_count", 0), found.get("execution_count", 0), by_rows)


def added(client, model, before, requests):
    """What so many requests have added to the counts: Triton counts one once it has answered."""
    deadline = time.monotonic() + 10
    while True:
        found = since(before, counts(client, model))
        if found[0] + found[1] >= requests or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def since(before, after):
    """What was added."""
    rows = {k: v - before[4].get(k, 0) for k, v in after[4].items() if v != before[4].get(k, 0)}
    return (*(a - b for a, b in zip(after[:4], before[:4], strict=True)), rows)


def test_a_configuration_is_completed(client):
    config = client.get("/v2/models/plain/config")
    assert config["max_batch_size"] == MOST
    (x,) = config["input"]
    assert (x["name"], x["data_type"], x["dims"]) == ("x", "TYPE_FP32", [WIDTH])
    assert {y["name"]: y["dims"] for y in config["output"]} == {"y": [10], "h": [24]}
    assert config["dynamic_batching"]["max_queue_delay_microseconds"] == 20000
    (group,) = config["instance_group"]
    assert (group["kind"], group["count"]) == ("KIND_MODEL", 1)


def test_profiles_give_the_largest_batch(client):
    config = client.get("/v2/models/profiles/config")
    assert config["max_batch_size"] == 24
    assert "dynamic_batching" in config
    meta = client.get("/v2/models/profiles")
    assert meta["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, WIDTH]}]


def test_onnx_models_are_built(client):
    config = client.get("/v2/models/lookup/config")
    assert config["max_batch_size"] == 16
    (i,) = config["input"]  # a number of each row has no dimension of its own
    assert (i["dims"], i["reshape"]) == ([1], {"shape": []})
    table = served.embedding()[1]
    given = numpy.array([[4], [49], [0]])
    result = client.infer("lookup", {"i": given})
    numpy.testing.assert_array_equal(result["row"], table[given[:, 0]])
    numpy.testing.assert_array_equal(result["number"], given.astype(numpy.float32))


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 16, 24])
@pytest.mark.parametrize("model", ["plain", "profiles"])
def test_results_are_the_engines(model, batch, client, files):
    """Bit for bit, of the profile that the batch runs in."""
    answers = served.Answers(files["two" if model == "profiles" else "one"])
    x = rows(batch)
    if batch > (24 if model == "profiles" else MOST):
        with pytest.raises(Refused, match="batch"):
            client.infer(model, {"x": x})
        return
    result = client.infer(model, {"x": x})
    want = answers.of_batch(x)
    assert set(result) == set(want)
    for name in want:
        numpy.testing.assert_array_equal(result[name], want[name])


@pytest.mark.parametrize("sizes", [[1] * MOST, [3, 1, 5, 7], [8, 8]])
def test_requests_are_put_together(sizes, server, client, files):
    """A full batch runs once, and each request has its rows of it, as the engine computes them in
    a batch of that size."""
    answers = served.Answers(files["one"])
    given = [rows(count, seed) for seed, count in enumerate(sizes)]
    before = counts(client, "together")
    results = at_once(server, "together", [{"x": x} for x in given])
    success, fail, inferred, executed, by_rows = added(client, "together", before,
                                                          len(sizes))
    assert (success, fail, inferred) == (len(sizes), 0, MOST)
    assert executed == sum(by_rows.values()) < len(sizes)
    assert sum(size * times for size, times in by_rows.items()) == MOST
    for x, result in zip(given, results, strict=True):
        possible = [answers.of_rows(x, batch) for batch in by_rows if batch >= len(x)]
        for name in ("y", "h"):
            assert any(numpy.array_equal(result[name], want[name]) for want in possible)


def test_only_what_is_wanted(client, files):
    x = rows(2)
    result = client.infer("plain", {"x": x}, outputs=["h"])
    assert set(result) == {"h"}
    numpy.testing.assert_array_equal(result["h"], served.Answers(files["one"]).of_batch(x)["h"])


def test_shapes_that_are_whole(client, files):
    """max_batch_size: 0 and an input that is spelled out: nothing is put together."""
    assert client.get("/v2/models/whole/config")["max_batch_size"] == 0
    x = rows(3)
    want = served.Answers(files["one"]).of_batch(x)
    numpy.testing.assert_array_equal(client.infer("whole", {"x": x})["y"], want["y"])
    with pytest.raises(Refused, match="17"):
        client.infer("whole", {"x": rows(17)})


def test_a_warm_up_is_a_batch(client, files):
    x = rows(8)
    want = served.Answers(files["one"]).of_batch(x)
    numpy.testing.assert_array_equal(client.infer("warm", {"x": x})["y"], want["y"])
    with pytest.raises(Refused, match="batch"):
        client.infer("warm", {"x": rows(9)})


def wrong_requests(client, model):
    """Requests that are wrong, each with what the answer has to say."""
    x = rows(2)
    return [
        (lambda: client.infer(model, {"x": x[:, :31]}), "shape"),
        (lambda: client.infer(model, {"x": x.astype(numpy.float16)}), "FP16"),
        (lambda: client.infer(model, {"x": x}, shape=[3, WIDTH]), "size|bytes"),
        (lambda: client.infer(model, {"z": x}), "input"),
        (lambda: client.infer(model, {"x": x[0]}), "shape|batch"),
        (lambda: client.infer(model, {"x": x}, outputs=["nothing"]), "nothing"),
        (lambda: client.infer(model, {"x": rows(17)}), "batch"),
        (lambda: client.infer(model, {"x": x[:0]}), "rows|shape|batch|size|0"),
    ]


def test_wrong_requests_are_errors(client):
    for ask, says in wrong_requests(client, "plain"):
        with pytest.raises(Refused, match=says) as found:
            ask()
        assert 400 <= found.value.status < 600
    assert client.infer("plain", {"x": rows(1)})["y"].shape == (1, 10)


def test_one_wrong_value_harms_no_other(server, client):
    """An index that is in no row of the table is found when the batch runs."""
    table = served.embedding()[1]
    given = [numpy.array([[k]]) for k in (1, 50, 2, 3, -51, 4, 49, 7)]
    before = counts(client, "lookup")
    results = at_once(server, "lookup", [{"i": i} for i in given])
    success, fail, *_ = added(client, "lookup", before, len(given))
    assert (success, fail) == (6, 2)
    for i, result in zip(given, results, strict=True):
        if i[0, 0] in (50, -51):
            assert isinstance(result, Refused) and "out of range" in str(result)
        else:
            numpy.testing.assert_array_equal(result["row"], table[i[:, 0]])


def load(server, model, answers, requests, threads=8):
    """Requests of mixed sizes, some of them wrong; their numbers: right, rows of these, wrong."""
    totals = {"right": 0, "rows": 0, "wrong": 0}
    lock = threading.Lock()

    def work(number):
        draw = random.Random(SEED + number)
        client = server.client()
        known = wrong_requests(client, model)
        for k in range(requests // threads):
            if draw.random() < 0.1:
                with pytest.raises(Refused):
                    draw.choice(known)[0]()
                kind, count = "wrong", 0
            else:
                count = draw.randint(1, 6)
                x = rows(count, draw.randrange(50))
                result = client.infer(model, {"x": x})
                candidates = answers.of(x)
                assert any(all(numpy.array_equal(result[name], want[name]) for name in want)
                           for want in candidates), (number, k)
                kind = "right"
            with lock:
                totals[kind] += 1
                totals["rows"] += count
        client.close()

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, number) for number in range(threads)]:
            done.result()
    return totals


class Remembered:
    """Answers in every batch that a request may have been in; drawn requests repeat."""

    def __init__(self, path, most):
        self.answers, self.most, self.known = served.Answers(path), most, {}
        self.lock = threading.Lock()

    def of(self, x):
        key = x.tobytes()
        with self.lock:
            if key not in self.known:
                self.known[key] = []
                for batch in range(len(x), self.most + 1):
                    want = self.answers.of_rows(x, batch)
                    if not any(all(numpy.array_equal(want[n], k[n]) for n in k)
                               for k in self.known[key]):
                        self.known[key].append(want)
            return self.known[key]


@pytest.mark.parametrize("requests", [240, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", ["plain", "several"])
def test_a_load_of_mixed_requests(model, requests, server, client, files):
    """None is wrong, the server lives, and its statistics are the load's own."""
    before = counts(client, model)
    totals = load(server, model, Remembered(files["one"], MOST), requests)
    success, _, inferred, executed, by_rows = added(client, model, before, totals["right"])
    assert totals["right"] + totals["wrong"] == requests and totals["wrong"] > 0
    assert (success, inferred) == (totals["right"], totals["rows"])
    assert executed == sum(by_rows.values())
    assert sum(size * times for size, times in by_rows.items()) == totals["rows"]
    assert server.is_alive()


def test_times_are_reported(client):
    client.infer("plain", {"x": rows(4)})
    for _ in range(100):  # the response may be there before its times are
        found = client.statistics("plain")["inference_stats"]
        parts = [found[part]["ns"] for part in ("compute_input", "compute_infer", "compute_output")]
        if all(part > 0 for part in parts):
            break
        time.sleep(0.05)
    assert all(part > 0 for part in parts)
    assert sum(parts) <= found["success"]["ns"]


def test_the_library_knows_no_torch():
    library = triton_process.BACKENDS / "vulkan" / "libtriton_vulkan.so"
    needed = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    assert "vk_compiler" in needed
    assert "torch_vulkan" not in [line.split()[0] for line in needed.splitlines()]
    assert not any(name in needed for name in ("libtorch", "libc10", "libpython"))


@pytest.mark.slow
def test_the_folder_of_the_backend(files, tmp_path):
    """make triton-backend: libraries that find each other wherever they lie."""
    folder = tmp_path / "backends" / "vulkan"
    subprocess.run([sys.executable, ROOT / "scripts" / "make_triton_backend.py", folder],
                   check=True)
    assert {path.name.split(".")[0] for path in folder.iterdir()} == {
        "libtriton_vulkan", "libvk_compiler", "libvk_runtime", "libprotobuf-lite"}
    moved = tmp_path / "elsewhere"
    (tmp_path / "backends").rename(moved)
    add_model(tmp_path / "models", "net", files["one"])
    log = tmp_path / "server.log"
    with Server(tmp_path / "models", log, options=[f"--backend-directory={moved}"]) as server:
        assert f"{moved}/vulkan/libtriton_vulkan.so" in log.read_text()
        own = server.client()
        x = rows(2)
        want = served.Answers(files["one"]).of_batch(x)
        numpy.testing.assert_array_equal(own.infer("net", {"x": x})["y"], want["y"])
        own.close()


def test_the_example(tmp_path):
    """make serve, with its client in place of a user."""
    done = subprocess.run([sys.executable, ROOT / "scripts" / "serve.py", "--check"],
                          capture_output=True, text=True, timeout=patience(300),
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0, done.stdout + done.stderr
    classes, batches, text = done.stdout.splitlines()[-3:]
    assert len(classes.split()) == 65
    assert batches.startswith("64 images in ") and int(batches.split()[3]) < 64, batches
    assert text.startswith("16 responses: ")


def test_tritons_own_client(server, files, tmp_path):
    """Metadata, JSON and binary tensors, HTTP and gRPC, shared memory, statistics."""
    x = rows(5)
    numpy.save(tmp_path / "x.npy", x)
    want = served.Answers(files["one"]).of_batch(x)
    numpy.savez(tmp_path / "want.npz", **want)
    python = triton_process.ENVIRONMENT / "bin" / "python"
    script = Path(__file__).parent / "conformance.py"
    done = subprocess.run([python, script, str(server.http), str(server.grpc), "plain",
                           str(tmp_path)], capture_output=True, text=True, timeout=patience(120),
                          env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "conforms"
