"""Triton's backend: models that are refused, with the reason, and models that come and go."""

import re
import threading

import numpy
import pytest
import served
import torch

import torch_vulkan as tv

from fault_helpers import LAYER, shared_library
from marks import turns
from workloads import triton_process
from workloads.triton_process import Refused, Server, add_model

MISSING = triton_process.what_is_missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def parameter(name, value):
    return f'parameters {{ key: "{name}", value: {{ string_value: "{value}" }} }}\n'


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    return served.classifier(tmp_path_factory.mktemp("files") / "net.vke")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return tmp_path_factory.mktemp("repository")


@pytest.fixture(scope="module")
def server(repository, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "server.log"
    options = ["--backend-config=vulkan,optimization_level=0",
               "--backend-config=default-max-batch-size=6"]
    with Server(repository, log, explicit=True, options=options) as made:
        yield made
        assert made.is_alive()


@pytest.fixture
def client(server):
    made = server.client()
    yield made
    made.close()


INPUT = 'input [{{ name: "{}", data_type: TYPE_{}, dims: [{}] }}]\n'
ENGINES = {
    "unknown": (parameter("devise", "0"), "unknown parameter 'devise'; did you mean 'device'"),
    "built": (parameter("optimization_level", "3"), "optimization_level: .*built already"),
    "no_device": (parameter("device", "no such device"), "no such device"),
    "too_large": ("max_batch_size: 17\n", "max_batch_size: got 17, .*batches of 1 to 16"),
    "other_name": ("max_batch_size: 4\n" + INPUT.format("quite_other", "FP32", 32),
                   r"no input 'quite_other'\. The model has x"),
    "other_type": ("max_batch_size: 4\n" + INPUT.format("x", "FP16", 32),
                   "got TYPE_FP16, want TYPE_FP32"),
    "other_dims": ("max_batch_size: 4\n" + INPUT.format("x", "FP32", 31),
                   r"got dims \[31\], want \[32\]"),
    "gpu": ("instance_group [{ kind: KIND_GPU }]\n", "KIND_GPU|GPU"),
    "sequences": ("sequence_batching { max_sequence_idle_microseconds: 1000 }\n",
                  "sequence_batching: engines keep no state"),
    "decoupled": ("model_transaction_policy { decoupled: true }\n", "one response"),
    "ragged": ('max_batch_size: 4\ninput [{ name: "x", data_type: TYPE_FP32, dims: [32], '
               "allow_ragged_batch: true }]\n", "allow_ragged_batch is not supported"),
    "no_file": ('default_model_filename: "net.vke"\n', "net.vke is not there"),
}
MODELS = {
    "unknown": (parameter("optimisation_level", "0"), "did you mean 'optimization_level'"),
    "bad_value": (parameter("optimization_level", "7"), "optimization_level: got 7"),
    "bad_bool": (parameter("disable_tf32", "maybe"), "disable_tf32: got 'maybe'"),
    "python": (parameter("enable_autocast", "1"), "enable_autocast: it is for PyTorch's models"),
    "whole": (parameter("min_block_size", "3"), "min_block_size: .*whole or not at all"),
    "two_names": (parameter("profile_min_shapes", "i:1"), "want the same inputs"),
}


def refusal(client, repository, name, file, config):
    add_model(repository, name, file, config)
    with pytest.raises(Refused) as found:
        client.load(name)
    return str(found.value)


@pytest.mark.parametrize("case", ENGINES)
def test_refused_engines(case, client, repository, engine):
    config, says = ENGINES[case]
    assert re.search(says, refusal(client, repository, f"engine_{case}", engine, config))


@pytest.mark.parametrize("case", MODELS)
def test_refused_models(case, client, repository):
    config, says = MODELS[case]
    assert re.search(says, refusal(client, repository, f"model_{case}", served.embedding()[0],
                                   config))


def test_a_damaged_engine_is_refused(client, repository, engine, tmp_path):
    damaged = bytearray(engine.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "net.vke").write_bytes(damaged)
    assert "vke" in refusal(client, repository, "damaged", tmp_path / "net.vke", "")


def test_a_model_without_weights_is_refused(client, repository, engine, tmp_path):
    tv.Engine.load(engine).save(tmp_path / "net.vke", strip_weights=True)
    text = refusal(client, repository, "stripped", tmp_path / "net.vke", "")
    assert "without its weights" in text


def test_an_operator_that_nobody_runs(client, repository):
    from onnx import TensorProto, helper

    from onnx_models import model, tensor
    made = model([helper.make_node("NonZero", ["x"], ["y"], name="here")], [tensor("x", ["n", 4])],
                 [tensor("y", [2, None], TensorProto.INT64)])
    text = refusal(client, repository, "nonzero", made.SerializeToString(), "")
    assert "NonZero" in text and "here" in text


def test_the_servers_own_limit(client, repository):
    """A model without one takes --backend-config=default-max-batch-size."""
    add_model(repository, "lookup", served.embedding()[0])
    client.load("lookup")
    config = client.get("/v2/models/lookup/config")
    assert config["max_batch_size"] == 6
    with pytest.raises(Refused):
        client.infer("lookup", {"i": numpy.zeros((7, 1), numpy.int64)})
    client.unload("lookup")


def test_a_graph_file(client, repository, tmp_path):
    """For batches that it was exported for, up to the server's limit."""
    pytest.importorskip("safetensors")
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).eval()
    for most in (3, 64):
        path = tmp_path / f"net{most}.vkg"
        tv.export_graph(net, path, [tv.Input(
            min_shape=(1, 4), opt_shape=(2, 4), max_shape=(most, 4), name="x")])
        add_model(repository, f"graph{most}", path)
        client.load(f"graph{most}")
        config = client.get(f"/v2/models/graph{most}/config")
        assert config["max_batch_size"] == min(most, 6)
        x = numpy.random.default_rng(0).normal(size=(2, 4)).astype(numpy.float32)
        (got,) = client.infer(f"graph{most}", {"x": x}).values()
        with torch.no_grad():
            numpy.testing.assert_allclose(got, net(torch.from_numpy(x)), rtol=1e-4, atol=1e-5)
        client.unload(f"graph{most}")


def test_a_damaged_graph_file_is_refused(client, repository, tmp_path):
    (tmp_path / "net.vkg").write_bytes(b"nothing")
    text = refusal(client, repository, "no_graph", tmp_path / "net.vkg", "")
    assert "not a .safetensors" in text


def test_an_open_dimension_that_is_no_batch(client, repository):
    """Its sizes are the model's, not those of a usual batch, which is 6 here."""
    from onnx import helper

    from onnx_models import model, tensor
    made = model([helper.make_node("Transpose", ["x"], ["y"])], [tensor("x", ["n", 4])],
                 [tensor("y", [4, "n"])])
    add_model(repository, "turned", made.SerializeToString())
    client.load("turned")
    assert client.get("/v2/models/turned/config")["max_batch_size"] == 0
    for n in (1, 5, 7):
        x = numpy.arange(4 * n, dtype=numpy.float32).reshape(n, 4)
        numpy.testing.assert_array_equal(client.infer("turned", {"x": x})["y"], x.T)


def test_ranges_of_sizes(client, repository):
    add_model(repository, "ranged", served.embedding()[0],
              "".join(parameter(f"profile_{which}_shapes", f"i:{size}")
                      for which, size in (("min", 1), ("opt", 5), ("max", 11))))
    client.load("ranged")
    assert client.get("/v2/models/ranged/config")["max_batch_size"] == 11
    given = numpy.arange(11).reshape(11, 1)
    result = client.infer("ranged", {"i": given})
    numpy.testing.assert_array_equal(result["row"], served.embedding()[1][:11])


def test_results_in_another_order_of_dimensions(client, repository, tmp_path):
    """An engine may leave a result channels last; responses are row-major."""
    net = torch.nn.Conv2d(3, 8, 3, padding=1).eval().to(memory_format=torch.channels_last)
    images = tv.Input(min_shape=(1, 3, 6, 6), opt_shape=(4, 3, 6, 6), max_shape=(4, 3, 6, 6),
                      name="x")
    program = tv.compile(net, inputs=[images], min_block_size=1)
    (made,) = tv.engines(program)
    made.save(tmp_path / "net.vke")
    (output,) = made.info()["outputs"]
    assert output["strides"][1] == 1  # channels last
    add_model(repository, "images", tmp_path / "net.vke")
    client.load("images")
    x = torch.randn(3, 3, 6, 6)
    result = client.infer("images", {"x": x.numpy()})[output["name"]]
    torch.testing.assert_close(torch.from_numpy(result.copy()), net(x).contiguous())


@pytest.fixture(scope="module")
def losing(engine, tmp_path_factory):
    """A server whose device is lost at the n-th call that may say so; those before the first batch
    are fewer on a device of type cpu, which shares the server's memory."""
    device = next((d for d in tv.devices() if d.type == "cpu"), None)
    if device is None:
        pytest.skip("no Vulkan device of type cpu")
    folder = tmp_path_factory.mktemp("layer")
    library = shared_library("vulkan_layer", folder)
    (folder / "layer.json").write_text(LAYER % library)
    add_model(folder / "models", "net", engine, parameter("device", device.uuid))

    def serve(lost_at):
        return Server(folder / "models", folder / "server.log", environment={
            "VK_LAYER_PATH": str(folder), "VK_INSTANCE_LAYERS": "VK_LAYER_TV_faults",
            "FAULT_LOST_AT": str(lost_at)})

    return serve


@turns(2)
@pytest.mark.parametrize("lost_at", [150, 151])
def test_a_lost_device_fails_a_batch_and_no_more(lost_at, losing, engine):
    """At a submission, and at a wait: the model is loaded again."""
    answers, lost = served.Answers(engine), []
    with losing(lost_at) as server:
        client = server.client()
        for k in range(200):
            x = numpy.full((1 + k % 3, 32), k, numpy.float32)
            try:
                result = client.infer("net", {"x": x})["y"]
            except Refused as refused:
                lost.append(str(refused))
                continue
            numpy.testing.assert_array_equal(result, answers.of_batch(x)["y"])
        client.close()
    assert len(lost) == 1 and "lost" in lost[0]


def test_models_come_and_go(client, repository, engine, server):
    """While others serve; the memory of what is gone is free."""
    add_model(repository, "stays", engine)
    add_model(repository, "goes", engine)
    client.load("stays")
    x = numpy.ones((2, 32), numpy.float32)
    want = served.Answers(engine).of_batch(x)["y"]
    over, answers, errors = threading.Event(), [], []

    def serve():
        own = server.client()
        try:
            while not over.is_set():
                numpy.testing.assert_array_equal(own.infer("stays", {"x": x})["y"], want)
                answers.append(1)
        except Exception as error:  # of any kind: the thread that started this one raises it
            errors.append(error)
        finally:
            own.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        sizes = []
        for _ in range(40):
            client.load("goes")
            numpy.testing.assert_array_equal(client.infer("goes", {"x": x})["y"], want)
            client.unload("goes")
            sizes.append(server.memory_mib())
    finally:
        over.set()
        thread.join()
    if errors:
        raise errors[0]
    assert answers
    assert max(sizes[20:]) < max(sizes[:20]) + 16  # MiB; a set of weights and an arena are less
