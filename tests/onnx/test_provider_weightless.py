"""EPContext models of ONNX Runtime's provider without weights: these come from the model that was
compiled, or from another one of the same network."""

import ctypes
import shutil

import numpy
import onnx
import onnxruntime
import provider_tests
import pytest
from onnx import helper, numpy_helper
from provider_tests import CPU, NAME, nodes_of, session
from test_provider import check, detector, random

from marks import turns
from onnx_models import linear, model, tensor, weight

pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")


def network(seed=0, slope=0.1, channels=64):
    """Convolutions with a batch norm, a Constant node among the weights, and a classifier."""
    bias = weight("", random(1, channels, 1, 1, seed=seed + 5))
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c0", "scale", "shift", "mean", "var"], ["n0"]),
        helper.make_node("LeakyRelu", ["n0"], ["a0"], alpha=slope),
        helper.make_node("Constant", [], ["bias"], value=bias),
        helper.make_node("Add", ["a0", "bias"], ["s0"]),
        helper.make_node("Conv", ["s0", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c1"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["y"], transB=1)]
    weights = {"w0": random(channels, 3, 3, 3, seed=seed), "b0": random(channels, seed=seed + 1),
               "scale": random(channels, seed=seed + 2), "shift": random(channels, seed=seed + 3),
               "mean": random(channels, seed=seed + 4),
               "var": 1 + random(channels, seed=seed + 6) ** 2,
               "w1": random(channels, channels, 3, 3, seed=seed + 7) / 8,
               "w2": random(10, channels, seed=seed + 8), "b2": random(10, seed=seed + 9)}
    return model(nodes, [tensor("x", ["n", 3, 8, 8])], [tensor("y", ["n", 10])],
                 [weight(name, array) for name, array in weights.items()])


def compiled(made, folder, embed=True, level="ORT_DISABLE_ALL", name="net.onnx", **options):
    """The path of a context model, beside the model that has its weights."""
    provider_tests.register()
    settings = onnxruntime.SessionOptions()
    device = next(d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME)
    settings.add_provider_for_devices([device], {
        "builder_optimization_level": "0", "min_subgraph_size": "1",
        "weight_stripped_engine_enable": "1", **{k: str(v) for k, v in options.items()}})
    onnx.save(made, folder / name)
    path = folder / "net_ctx.onnx"
    onnxruntime.ModelCompiler(
        settings, str(folder / name), embed_compiled_data_into_model=embed,
        graph_optimization_level=getattr(onnxruntime.GraphOptimizationLevel, level),
    ).compile_to_file(str(path))
    return path


FEED = {"x": random(2, 3, 8, 8, seed=40)}


@turns(2)
@pytest.mark.parametrize("embed", [True, False])
def test_weights_come_from_the_model(embed, tmp_path):
    """Far fewer bytes than they have, and nothing is built or computed otherwise."""
    made = network()
    path = compiled(made, tmp_path, embed)
    written = sum(p.stat().st_size for p in tmp_path.iterdir() if p.name != "net.onnx")
    # 2.7 times the channels have seven times the weights, of which none is there.
    (tmp_path / "wide").mkdir()
    compiled(network(channels=170), tmp_path / "wide", embed)
    wide = sum(p.stat().st_size for p in (tmp_path / "wide").iterdir() if p.name != "net.onnx")
    weights = (tmp_path / "wide" / "net.onnx").stat().st_size
    assert abs(wide - written) < 30_000 and weights > 1_000_000
    opened = session(path, alone=True)
    numpy.testing.assert_array_equal(opened.run(None, FEED)[0], session(
        made, level="ORT_DISABLE_ALL").run(None, FEED)[0])
    check(made, FEED, opened)


def test_other_weights_of_the_same_network(tmp_path):
    path = compiled(network(), tmp_path)
    (tmp_path / "net.onnx").unlink()
    for seed in (20, 0, 30):
        other = network(seed)
        onnx.save(other, tmp_path / "other.onnx")
        check(other, FEED, session(path, alone=True, refit_from_onnx=tmp_path / "other.onnx"))


@pytest.mark.parametrize("level", ["ORT_ENABLE_ALL", "ORT_DISABLE_ALL"])
def test_a_session_of_other_weights_builds_nothing(level, tmp_path):
    """The cache has one engine, which the first session built; each has its own weights."""
    def engines():
        return {(path.name, path.stat().st_ino) for path in (tmp_path / "engines").iterdir()}

    first = session(network(), level=level, alone=True, engine_cache_path=tmp_path)
    built = engines()
    assert len(built) == 1
    for seed in (20, 30):
        check(network(seed), FEED, session(network(seed), level=level, alone=True,
                                           engine_cache_path=tmp_path))
        assert engines() == built
    check(network(), FEED, first)
    session(network(slope=0.2), level=level, alone=True, engine_cache_path=tmp_path)
    assert engines() > built, "another network has another engine"


def address_of(made):
    data = made.SerializeToString()
    memory = ctypes.create_string_buffer(data, len(data))
    return memory, {"onnx_bytestream": ctypes.addressof(memory), "onnx_bytestream_size": len(data)}


def test_a_model_in_memory(tmp_path):
    """The weights' model, when a context is written and when it is read."""
    made, other = network(), network(20)
    memory, options = address_of(made)
    path = tmp_path / "ctx.onnx"
    session(made, {"ep.context_enable": "1", "ep.context_embed_mode": "1",
                   "ep.context_file_path": str(path)}, level="ORT_DISABLE_ALL",
            weight_stripped_engine_enable=1, **options)
    check(made, FEED, session(path, **options))
    memory, options = address_of(other)
    check(other, FEED, session(path, **options))
    with pytest.raises(Exception, match="made without its weights"):
        session(path)
    with pytest.raises(Exception, match="onnx_bytestream and onnx_bytestream_size say where"):
        session(made, {"ep.context_enable": "1", "ep.context_embed_mode": "1",
                       "ep.context_file_path": str(tmp_path / "second.onnx")},
                weight_stripped_engine_enable=1)


def test_the_folder_of_the_model(tmp_path):
    made = network()
    path = compiled(made, tmp_path)
    (tmp_path / "models").mkdir()
    shutil.move(tmp_path / "net.onnx", tmp_path / "models" / "net.onnx")
    with pytest.raises(Exception, match='"net.onnx", is not in .*onnx_model_folder_path'):
        session(path)
    check(made, FEED, session(path, onnx_model_folder_path=tmp_path / "models"))


@pytest.mark.parametrize("name", ["../net.onnx", "/etc/passwd", "..", ""])
def test_the_model_is_a_file_of_that_folder(name, tmp_path):
    (tmp_path / "inner").mkdir()
    onnx.save(network(), tmp_path / "net.onnx")
    path = compiled(network(), tmp_path / "inner")
    changed = onnx.load(path)
    (attribute,) = [a for a in changed.graph.node[0].attribute if a.name == "onnx_model_filename"]
    attribute.s = name.encode()
    onnx.save(changed, path)
    with pytest.raises(Exception, match="is not in"):
        session(path)


def with_tensor(made, name, array):
    for known in made.graph.initializer:
        if known.name == name:
            known.CopyFrom(numpy_helper.from_array(array, name))
    return made


def test_another_model_in_its_place(tmp_path):
    path = compiled(network(), tmp_path)
    changed = numpy_helper.to_array(network().graph.initializer[6]).copy()
    changed[-1, -1, -1, -1] += 1
    for other, message in (
            (network(20), 'weight "[a-z0-9]+" is not that of the model'),
            (with_tensor(network(), "w1", changed), 'its weight "w1" is not that of the model'),
            (with_tensor(network(), "w1", random(4, 4)), 'it has no weight "w1"'),
            (linear()[0], "it has no weight")):
        onnx.save(other, tmp_path / "net.onnx")
        with pytest.raises(Exception, match=message):
            session(path)
    (tmp_path / "net.onnx").write_bytes(b"no model")
    with pytest.raises(Exception, match="not an ONNX model"):
        session(path)


def test_no_weights_of_another_network(tmp_path):
    """Results would be neither network's."""
    path = compiled(network(), tmp_path)
    renamed = network()
    renamed.graph.node[0].attribute[0].ints[0] = 0
    for other in (network(slope=0.2), renamed, linear()[0]):
        onnx.save(other, tmp_path / "other.onnx")
        with pytest.raises(Exception, match="it is of another network"):
            session(path, refit_from_onnx=tmp_path / "other.onnx")
    notes = network(20)
    notes.producer_name = notes.doc_string = notes.graph.node[0].doc_string = "by another program"
    onnx.save(notes, tmp_path / "other.onnx")
    check(notes, FEED, session(path, refit_from_onnx=tmp_path / "other.onnx"))


def test_what_is_no_weight_of_an_engine_stays(tmp_path):
    """The CPU provider keeps its own, and a bound that is part of an engine's code."""
    path = compiled(detector(), tmp_path)
    feed = {"x": random(1, 8), "logits": random(1, 1, 12, seed=3)}
    check(detector(), feed, session(path))
    for name, array in (("overlap", numpy.array([0.9], numpy.float32)),
                        ("most", numpy.array([2]))):
        onnx.save(with_tensor(detector(), name, array), tmp_path / "other.onnx")
        with pytest.raises(Exception, match="it is of another network"):
            session(path, refit_from_onnx=tmp_path / "other.onnx")
    other = with_tensor(detector(), "w", random(8, 48, seed=7))
    onnx.save(other, tmp_path / "other.onnx")
    check(other, feed, session(path, refit_from_onnx=tmp_path / "other.onnx"))


def clipped(limit, seed=0):
    return model([helper.make_node("MatMul", ["x", "w"], ["h"]),
                  helper.make_node("Clip", ["h", "", "limit"], ["y"])],
                 [tensor("x", ["n", 8])], [tensor("y", ["n", 4])],
                 [weight("w", random(8, 4, seed=seed)),
                  weight("limit", numpy.array(limit, numpy.float32))])


def test_numbers_that_an_engine_is_built_for(tmp_path):
    """A bound that became a part of the code is not taken for a weight."""
    path = compiled(clipped(0.5), tmp_path)
    onnx.save(clipped(0.25, 3), tmp_path / "other.onnx")
    feed = {"x": random(3, 8)}
    with pytest.raises(Exception, match="it is of another network"):
        session(path, refit_from_onnx=tmp_path / "other.onnx")
    onnx.save(clipped(0.5, 3), tmp_path / "other.onnx")
    check(clipped(0.5, 3), feed, session(path, refit_from_onnx=tmp_path / "other.onnx"))


def test_weights_that_the_runtime_computed(tmp_path):
    """They are in the context, so that no other ones fit it."""
    made = network()
    path = compiled(made, tmp_path, level="ORT_ENABLE_ALL")
    check(made, FEED, session(path))
    check(made, FEED, session(path, refit_from_onnx=tmp_path / "net.onnx"))
    onnx.save(network(20), tmp_path / "other.onnx")
    with pytest.raises(Exception, match="takes no other weights: the runtime computed"):
        session(path, refit_from_onnx=tmp_path / "other.onnx")


def test_weights_beside_the_model(tmp_path):
    made = network()
    path = compiled(made, tmp_path)
    (tmp_path / "net.onnx").unlink()
    onnx.save(made, tmp_path / "net.onnx", save_as_external_data=True, location="data",
              size_threshold=0)
    made = network()
    check(made, FEED, session(path))
    other = network(20)
    onnx.save(other, tmp_path / "other.onnx", save_as_external_data=True, location="more",
              size_threshold=0)
    check(network(20), FEED, session(path, refit_from_onnx=tmp_path / "other.onnx"))


def test_a_damaged_context(tmp_path):
    path = compiled(clipped(0.5), tmp_path, level="ORT_ENABLE_ALL")
    whole = onnx.load(path)
    (data,) = [a for a in whole.graph.node[0].attribute if a.name == "ep_cache_context"]
    original = data.s
    for at in [*range(0, len(original), len(original) // 20), len(original) - 1]:
        for changed in (original[:at] + bytes([original[at] ^ 1]) + original[at + 1:],
                        original[:at]):
            data.s = changed
            onnx.save(whole, path)
            with pytest.raises(Exception, match=NAME):
                session(path)


def test_contexts_of_a_context_model(tmp_path):
    """They name the same model."""
    made = network()
    first = compiled(made, tmp_path)
    second = tmp_path / "second.onnx"
    session(first, {"ep.context_enable": "1", "ep.context_embed_mode": "1",
                    "ep.context_file_path": str(second)})
    assert abs(second.stat().st_size - first.stat().st_size) < 1000
    check(made, FEED, session(second))


def test_a_context_that_has_its_weights(tmp_path):
    made, _ = linear()
    path = compiled(made, tmp_path, weight_stripped_engine_enable=0)
    with pytest.raises(Exception, match="the EPContext node has its weights"):
        session(path, refit_from_onnx=tmp_path / "net.onnx")
    with pytest.raises(Exception, match="refit_from_onnx: the model holds no engines"):
        session(made, refit_from_onnx=tmp_path / "net.onnx")


@pytest.mark.parametrize("options, message", [
    ({"onnx_bytestream": 4096}, "onnx_bytestream and onnx_bytestream_size: got one of them"),
    ({"onnx_bytestream_size": 9}, "onnx_bytestream and onnx_bytestream_size: got one of them"),
    ({"onnx_bytestream": "0x10"}, "option onnx_bytestream: got '0x10'"),
    ({"onnx_bytestream_size": -1}, "option onnx_bytestream_size: got '-1'"),
    ({"onnx_bytestream": 4096, "onnx_bytestream_size": 1, "refit_from_onnx": "a.onnx"},
     "option refit_from_onnx: onnx_bytestream gives a model, too"),
    ({"weight_stripped_engine_enable": "maybe"}, "weight_stripped_engine_enable: got 'maybe'")])
def test_bad_options(options, message):
    with pytest.raises(Exception) as caught:
        session(linear()[0], **options)
    assert message in str(caught.value)


def test_all_of_it_is_one_engine(tmp_path):
    path = compiled(network(), tmp_path)
    assert [*nodes_of(session(path))] == [NAME]
    assert CPU not in nodes_of(session(path))


@pytest.mark.parametrize("key, value", [
    ("ep.enable_weightless_mode", "2"), ("ep.enable_weightless", "1"),
    ("ep.enable_weightless_ep_context_nodes", "1")])
def test_the_runtimes_own_options(key, value, tmp_path):
    """What asks for contexts without weights, and where the model is that has them."""
    made = network()
    onnx.save(made, tmp_path / "net.onnx")
    path = tmp_path / "net_ctx.onnx"
    session(tmp_path / "net.onnx", {"ep.context_enable": "1", "ep.context_embed_mode": "1",
                                    "ep.context_file_path": str(path), key: value},
            level="ORT_DISABLE_ALL")
    moved = tmp_path / "elsewhere.onnx"
    shutil.move(tmp_path / "net.onnx", moved)
    with pytest.raises(Exception, match="ep.context_source_model_path"):
        session(path)
    check(made, FEED, session(path, {"ep.context_source_model_path": str(moved)}))
    with pytest.raises(Exception, match="there is no file"):
        session(path, {"ep.context_source_model_path": str(tmp_path / "missing.onnx")})
