"""Transformers as ONNX Runtime's tools write them: exported, then through its own optimisers, which
put operators of com.microsoft into the graph."""

import logging
import warnings

import numpy
import onnx
import pytest
import torch

import torch_vulkan as tv

onnxruntime = pytest.importorskip("onnxruntime")
transformers = pytest.importorskip("transformers")
pytest.importorskip("onnxscript")
optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")

SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 96, "vocab_size": 99, "max_position_embeddings": 32}


def bert():
    config = transformers.BertConfig(**SIZES, attn_implementation="eager")
    return transformers.BertModel(config, add_pooling_layer=False)


class First(torch.nn.Module):
    """The first result of a model of ids and a mask."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask)[0]


def exported(make, path, dynamo):
    """Writes the model; returns what it computes of the inputs that come with it."""
    torch.manual_seed(0)
    model = First(make()).eval()
    ids, mask = torch.randint(0, 99, (2, 8)), torch.ones(2, 8, dtype=torch.int64)
    mask[0, 5:] = 0
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (ids, mask), path, dynamo=dynamo,
                          input_names=["input_ids", "attention_mask"],
                          **({"verbose": False} if dynamo else {"opset_version": 17}))
        want = model(ids, mask).numpy()
    return {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}, want


def by_transformers(path, kind):
    """The file through onnxruntime.transformers.optimizer."""
    logging.disable(logging.WARNING)
    try:
        made = optimizer.optimize_model(path, model_type=kind, num_heads=4, hidden_size=64,
                                        opt_level=0)
    finally:
        logging.disable(logging.NOTSET)
    made.save_model_to_file(path)


def operators(path):
    return {f"{n.domain}::{n.op_type}" for n in onnx.load(path).graph.node
            if n.domain not in ("", "ai.onnx")}


def rows(result, feed):
    """What tokens that are not padding make."""
    return result[feed["attention_mask"].astype(bool)]


def test_bert_of_transformers_optimizer(tmp_path):
    path = str(tmp_path / "net.onnx")
    feed, want = exported(bert, path, False)
    by_transformers(path, "bert")
    if "com.microsoft::Attention" not in operators(path):
        pytest.skip(f"onnxruntime {onnxruntime.__version__} finds no Attention in the BERT of "
                    f"transformers {transformers.__version__}")
    assert "com.microsoft::SkipLayerNormalization" in operators(path)
    session = tv.onnx.compile(path, optimization_level=0, fallback="none")
    (got,) = session.run(None, {arg.name: feed[arg.name] for arg in session.get_inputs()})
    numpy.testing.assert_allclose(rows(got, feed), rows(want, feed), rtol=1e-3, atol=1e-4)
    assert len(session.engines) == 1
