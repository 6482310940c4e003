"""The networks of the parity table: architectures from transformers, weights random with seed 0.

Each has its published size, or a small configuration of its own (small_networks.py), and a reduced
one, which the tests use.
"""

import contextlib
import importlib.util
import io
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers as tf
from torch import nn

from workloads import small_networks as small


@dataclass(frozen=True)
class Network:
    """One row of the table.

    Attributes:
        name: as printed.
        make: reduced (bool) -> module in eval mode.
        inputs: (batch, reduced, seed) -> keyword arguments of the module.
        batches: batch sizes that the table lists.
        max_engines: how many engines the network may become.
    """

    name: str
    make: Callable[[bool], nn.Module]
    inputs: Callable[[int, bool, int], dict]
    batches: tuple[int, ...]
    max_engines: int


class Output(nn.Module):
    """Calls a transformers model and returns the tensors of its output, as a tuple."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **inputs):
        return self.model(**inputs, return_dict=False)[:1]


class Positional(nn.Module):
    """A network of one keyword argument, without its name; its first result."""

    def __init__(self, model, key):
        super().__init__()
        self.model, self.key = model, key

    def forward(self, x):
        result = self.model(**{self.key: x})
        return result if isinstance(result, torch.Tensor) else result[0]


def export(module: nn.Module, x: torch.Tensor, path: Path) -> None:
    """Writes an ONNX file with the input `x` and the output `y`."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), path, dynamo=True, verbose=False, external_data=False,
                          input_names=["x"], output_names=["y"])


def randomise(model: nn.Module, gain: float) -> nn.Module:
    """Gives batch norms statistics that fold to something, and convolutions weights of standard
    deviation gain / sqrt(fan in), so that the signal neither dies (as with transformers' own) nor
    passes float16's range on its way through the depth."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, 0.0, gain * module.weight[0].numel() ** -0.5)
        elif isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.1, 0.1)
    return model


def _seeded(build: Callable[[bool], nn.Module], gain=1.4) -> Callable[[bool], nn.Module]:
    def make(reduced):
        torch.manual_seed(0)
        return randomise(build(reduced), gain).eval()

    return make


def _image(size, small, key="pixel_values"):
    def inputs(batch, reduced, seed):
        side = small if reduced else size
        generator = torch.Generator().manual_seed(seed)
        return {key: torch.randn(batch, 3, side, side, generator=generator)}

    return inputs


def _tokens(mask, vocabulary):
    def inputs(batch, reduced, seed):
        length = 32 if reduced else 128
        generator = torch.Generator().manual_seed(seed)
        size = 1000 if reduced else vocabulary
        ids = torch.randint(0, size, (batch, length), generator=generator)
        given = {"input_ids": ids}
        if mask:
            lengths = torch.arange(batch) * 3 + length * 3 // 4
            given["attention_mask"] = (torch.arange(length) < lengths[:, None]).long()
        return given

    return inputs


def _resnet(reduced):
    config = tf.ResNetConfig(embedding_size=16, hidden_sizes=[32, 64], depths=[2, 1],
                             num_labels=10) if reduced else tf.ResNetConfig(num_labels=1000)
    return Output(tf.ResNetForImageClassification(config))


def _mobilenet(reduced):
    config = tf.MobileNetV2Config(depth_multiplier=0.35, image_size=64) if reduced else (
        tf.MobileNetV2Config(num_labels=1000))
    return Output(tf.MobileNetV2ForImageClassification(config))


def _efficientnet(reduced):
    # B0; transformers' defaults are B7's.
    common = {"image_size": 224, "hidden_dim": 1280, "dropout_rate": 0.2,
              "width_coefficient": 1.0, "depth_coefficient": 1.0, "num_labels": 1000}
    if reduced:
        common |= {"width_coefficient": 0.35, "depth_coefficient": 0.3, "hidden_dim": 448}
    return Output(tf.EfficientNetForImageClassification(tf.EfficientNetConfig(**common)))


def _vit(reduced):
    config = tf.ViTConfig(hidden_size=48, num_hidden_layers=2, num_attention_heads=3,
                          intermediate_size=96, image_size=64) if reduced else (
                              tf.ViTConfig(num_labels=1000))
    return Output(tf.ViTForImageClassification(config))


def _bert(reduced):
    config = tf.BertConfig(hidden_size=48, num_hidden_layers=2, num_attention_heads=3,
                           intermediate_size=96, vocab_size=1000) if reduced else tf.BertConfig()
    return Output(tf.BertModel(config))


def _gpt2(reduced):
    config = tf.GPT2Config(n_embd=48, n_layer=2, n_head=3, vocab_size=1000, bos_token_id=0,
                           eos_token_id=0, use_cache=False) if (
        reduced) else tf.GPT2Config(use_cache=False)
    return Output(tf.GPT2LMHeadModel(config))


def _translation(batch, reduced, seed):
    """Token ids for an encoder and a decoder."""
    generator = torch.Generator().manual_seed(seed)
    lengths = (24, 16) if reduced else (96, 64)
    return {key: torch.randint(0, 1000, (batch, length), generator=generator)
            for key, length in zip(("input_ids", "decoder_input_ids"), lengths, strict=True)}


def _speech(batch, reduced, seed):
    """A spectrogram of two frames a position, and the tokens so far."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, 1000, (batch, 16), generator=generator)
    spectrum = torch.randn(batch, 80, 100 if reduced else 500, generator=generator)
    return {"input_features": spectrum, "decoder_input_ids": tokens}


def _noisy(batch, reduced, seed):
    """An image and the time that says how noisy it is."""
    image = _image(64, 16, "sample")(batch, reduced, seed)
    return image | {"timestep": torch.arange(batch) * 7 + 20 * seed + 3}


def _small(build):
    return _seeded(lambda reduced: Output(build(reduced)))


class _Yolo(nn.Module):
    def __init__(self):
        super().__init__()
        path = Path(__file__).parent.parent / "examples" / "yolov5s.py"
        spec = importlib.util.spec_from_file_location("yolov5s_example", path)
        example = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = example  # Dynamo imports the modules of what it traces
        spec.loader.exec_module(example)
        self.model = example.YOLOv5s()

    def forward(self, pixel_values):
        return (self.model(pixel_values),)


NETWORKS = {
    network.name: network
    for network in (
        Network("ResNet-50", _seeded(_resnet, gain=1.2), _image(224, 64), (1, 4), 1),
        Network("MobileNetV2", _seeded(_mobilenet, gain=1.2), _image(224, 64), (1, 4), 1),
        Network("EfficientNet-B0", _seeded(_efficientnet, gain=1.5), _image(224, 64), (1, 4), 1),
        Network("ViT-B/16", _seeded(_vit), _image(224, 64), (1, 4), 1),
        Network("BERT-base", _seeded(_bert), _tokens(False, 30522), (1, 4), 2),
        Network("BERT-base, mask", _seeded(_bert), _tokens(True, 30522), (1, 4), 2),
        Network("GPT-2", _seeded(_gpt2), _tokens(False, 50257), (1,), 2),
        Network("YOLOv5s", _seeded(lambda reduced: _Yolo(), gain=1.2), _image(640, 64), (1,), 1),
        Network("Llama", _small(small.llama), _tokens(False, 1000), (1, 4), 1),
        Network("T5", _small(small.t5), _translation, (1, 4), 1),
        Network("Whisper", _small(small.whisper), _speech, (1, 4), 1),
        Network("Swin", _small(small.swin), _image(224, 64), (1, 4), 1),
        Network("ConvNeXt", _small(small.convnext), _image(224, 64), (1, 4), 1),
        Network("DETR", _small(small.detr), _image(224, 64), (1, 4), 1),
        Network("SegFormer", _small(small.segformer), _image(224, 64), (1, 4), 1),
        Network("UNet", _seeded(small.unet), _noisy, (1, 4), 1),
    )
}
