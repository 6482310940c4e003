"""The architectures of benchmarks/survey.py, with random weights: transformers' by their
configurations, small or of full size, those of timm and diffusers where they are installed, and a
few written here. timm wants torchvision, of which its networks need nothing: where it is not
installed, modules of empty classes stand in for it."""

import contextlib
import importlib.util
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import transformers as tf
from torch import nn

_TEXT = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
             vocab_size=1000)
_GPT = dict(n_embd=128, n_layer=2, n_head=4, vocab_size=1000)
_SEQ2SEQ = dict(d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256,
                vocab_size=1000, max_position_embeddings=128)
_T5 = dict(d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, vocab_size=1000)
_GROUPED = dict(_TEXT, num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0)
_VIT = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
            image_size=96)
_SPEECH = dict(hidden_size=192, num_hidden_layers=2, num_attention_heads=4, intermediate_size=384,
               conv_dim=[128] * 7, num_conv_pos_embeddings=64, num_conv_pos_embedding_groups=8)

# What transformers calls the architecture, its configuration, and the kind of its inputs.
_TRANSFORMERS = {
    "bert": (_TEXT, "tokens"), "albert": (dict(_TEXT, embedding_size=64), "tokens"),
    "roberta": (_TEXT, "tokens"), "electra": (dict(_TEXT, embedding_size=64), "tokens"),
    "deberta-v2": (dict(_TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"]), "tokens"),
    "deberta": (dict(_TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"]), "tokens"),
    "mobilebert": (dict(_TEXT, embedding_size=64, intra_bottleneck_size=64, true_hidden_size=64),
                   "tokens"),
    "squeezebert": (dict(_TEXT, embedding_size=128), "tokens"),
    "convbert": (dict(_TEXT, embedding_size=64), "tokens"), "roformer": (_TEXT, "tokens"),
    "modernbert": (dict(_TEXT, global_attn_every_n_layers=2, local_attention=32, pad_token_id=0,
                        bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2), "tokens"),
    "xlnet": (dict(d_model=128, n_layer=2, n_head=4, d_inner=256, vocab_size=1000), "tokens"),
    "longformer": (dict(_TEXT, attention_window=[32, 32]), "long"),
    "mpnet": (_TEXT, "tokens"), "nystromformer": (_TEXT, "tokens"), "fnet": (_TEXT, "tokens"),
    "big_bird": (dict(_TEXT, block_size=16, num_random_blocks=1), "long"),
    "distilbert": (dict(dim=128, n_layers=2, n_heads=4, hidden_dim=256, vocab_size=1000),
                   "tokens"),
    "gpt2": (_GPT, "tokens"), "gpt_neox": (_TEXT, "tokens"), "opt": (
        dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, ffn_dim=256,
             vocab_size=1000, word_embed_proj_dim=128), "tokens"),
    "bloom": (dict(hidden_size=128, n_layer=2, n_head=4, vocab_size=1000), "tokens"),
    "llama": (_GROUPED, "tokens"), "mistral": (_GROUPED, "tokens"), "qwen2": (_GROUPED, "tokens"),
    "gemma": (dict(_GROUPED, head_dim=32), "tokens"), "phi": (_GROUPED, "tokens"),
    "gptj": (dict(_GPT, rotary_dim=16), "tokens"),
    "gpt_neo": (dict(hidden_size=128, num_layers=2, num_heads=4, window_size=32, vocab_size=1000,
                     attention_types=[[["global", "local"], 1]]), "tokens"),
    "falcon": (_TEXT, "tokens"),
    "mpt": (dict(d_model=128, n_heads=4, n_layers=2, vocab_size=1000), "tokens"),
    "olmo": (_GROUPED, "tokens"), "phi3": (_GROUPED, "tokens"),
    "gemma2": (dict(_GROUPED, head_dim=32), "tokens"),
    "qwen3": (dict(_GROUPED, head_dim=32), "tokens"),
    "mixtral": (dict(_GROUPED, num_local_experts=4), "tokens"),
    "olmoe": (dict(_GROUPED, num_experts=16, num_experts_per_tok=4), "tokens"),
    "qwen2_moe": (dict(_GROUPED, num_experts=16, num_experts_per_tok=4, moe_intermediate_size=64,
                       shared_expert_intermediate_size=256), "tokens"),
    "mamba2": (dict(hidden_size=128, num_hidden_layers=2, vocab_size=1000, num_heads=8,
                    head_dim=32, expand=2, state_size=16, n_groups=1, chunk_size=32), "tokens"),
    "rwkv": (dict(hidden_size=128, num_hidden_layers=2, vocab_size=1000,
                  attention_hidden_size=128, intermediate_size=256), "tokens"),
    "mamba": (dict(hidden_size=128, num_hidden_layers=2, vocab_size=1000), "tokens"),
    "longt5": (dict(_T5, encoder_attention_type="transient-global", local_radius=16,
                    global_block_size=8), "pairs"),
    "switch_transformers": (dict(_T5, num_experts=4, num_sparse_encoder_layers=1,
                                 num_sparse_decoder_layers=1), "pairs"),
    "t5": (_T5, "pairs"), "bart": (_SEQ2SEQ, "pairs"), "pegasus": (_SEQ2SEQ, "pairs"),
    "vit": (_VIT, "image"), "deit": (_VIT, "image"), "beit": (_VIT, "image"),
    "dinov2": (dict(_VIT, patch_size=16), "image"),
    "swin": (dict(image_size=96, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=6),
             "image"),
    "swinv2": (dict(image_size=96, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=6),
               "image"),
    "segformer": (dict(hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1]), "image"),
    "resnet": (dict(embedding_size=32, hidden_sizes=[64, 128], depths=[2, 2]), "image"),
    "regnet": (dict(embedding_size=32, hidden_sizes=[48, 96], depths=[2, 2], groups_width=24),
               "image"),
    "convnext": (dict(hidden_sizes=[32, 64], depths=[2, 2], num_stages=2), "image"),
    "convnextv2": (dict(hidden_sizes=[32, 64], depths=[2, 2], num_stages=2), "image"),
    "mobilenet_v1": (dict(depth_multiplier=0.25, image_size=96), "image"),
    "mobilenet_v2": (dict(depth_multiplier=0.35, image_size=96), "image"),
    "efficientnet": (dict(width_coefficient=0.5, depth_coefficient=0.5, image_size=96,
                          hidden_dim=640), "image"),
    "poolformer": (dict(hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1]), "image"),
    "bit": (dict(embedding_size=32, hidden_sizes=[32, 64], depths=[1, 1]), "image"),
    "cvt": (dict(embed_dim=[16, 32, 64], num_heads=[1, 2, 4], depth=[1, 1, 2]), "image"),
    "levit": (dict(image_size=96, hidden_sizes=[64, 96, 128], num_attention_heads=[2, 3, 4],
                   depths=[1, 1, 1], key_dim=[16, 16, 16]), "image"),
    "mobilevit": (dict(image_size=96, hidden_sizes=[48, 64, 80],
                       neck_hidden_sizes=[16, 32, 48, 64, 80, 96, 128]), "image"),
    "mobilevitv2": (dict(image_size=96, width_multiplier=0.5), "image"),
    "focalnet": (dict(image_size=96, embed_dim=32, depths=[1, 1], focal_levels=[2, 2],
                      focal_windows=[3, 3], hidden_sizes=[32, 64]), "image"),
    "yolos": (dict(_VIT, image_size=[96, 96]), "image"),
    "hiera": (dict(image_size=[96, 96], embed_dim=32, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8]),
              "image"),
    "swiftformer": (dict(image_size=96, depths=[1, 1, 1, 1], embed_dims=[16, 32, 64, 128]),
                    "image"),
    "siglip_vision_model": (_VIT, "image"),
    "timesformer": (dict(_VIT, num_frames=4), "video"),
    "videomae": (dict(_VIT, num_frames=4, tubelet_size=2), "video"),
    "vivit": (dict(_VIT, num_frames=4, tubelet_size=[2, 16, 16]), "video"),
    "wav2vec2": (_SPEECH, "sound"), "hubert": (_SPEECH, "sound"), "wavlm": (_SPEECH, "sound"),
    "sew": (dict(_SPEECH, conv_dim=[64] * 13, num_conv_pos_embeddings=32), "sound"),
    "encodec": (dict(num_filters=8, hidden_size=32, codebook_size=64, num_lstm_layers=1), "wave"),
    "audio-spectrogram-transformer": (
        dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
             max_length=256), "spectrogram"),
    "patchtst": (dict(d_model=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128,
                      num_input_channels=4, context_length=64, patch_length=8, patch_stride=8),
                 "series"),
    "whisper": (dict({k: v for k, v in _SEQ2SEQ.items() if k != "max_position_embeddings"},
                     max_source_positions=100, pad_token_id=0, decoder_start_token_id=1,
                     bos_token_id=1, eos_token_id=2), "spectrum"),
}


def _tokens(length):
    return torch.randint(3, 1000, (1, length), generator=torch.Generator().manual_seed(0))


_INPUTS: dict[str, Callable[[], dict]] = {
    "tokens": lambda: {"input_ids": _tokens(64)},
    "long": lambda: {"input_ids": _tokens(256)},
    "pairs": lambda: {"input_ids": _tokens(64), "decoder_input_ids": _tokens(32)},
    "image": lambda: {"pixel_values": torch.randn(1, 3, 96, 96)},
    "video": lambda: {"pixel_values": torch.randn(1, 4, 3, 96, 96)},
    "sound": lambda: {"input_values": torch.randn(1, 8000)},
    "wave": lambda: {"input_values": torch.randn(1, 1, 8000)},
    "spectrogram": lambda: {"input_values": torch.randn(1, 256, 128)},
    "series": lambda: {"past_values": torch.randn(1, 64, 4)},
    "spectrum": lambda: {"input_features": torch.randn(1, 80, 200),
                         "decoder_input_ids": _tokens(16)},
}


class First(nn.Module):
    """Calls a model with named inputs and returns the first tensor of what it gives."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **inputs):
        result = self.model(**inputs)
        while not isinstance(result, torch.Tensor):
            result = next(iter(result.values() if hasattr(result, "values") else result))
        return result


class Plain(nn.Module):
    """A network of one unnamed argument, called with x."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class Residual(nn.Module):
    """x plus layers of x."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return torch.relu(x + self.layers(x))


def _conv3(ic, oc, stride=1):
    return [nn.Conv3d(ic, oc, 3, stride, 1, bias=False), nn.BatchNorm3d(oc), nn.ReLU()]


def video_resnet():
    """The layers of a ResNet-18 for video, half as wide."""
    layers = [nn.Conv3d(3, 32, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(32),
              nn.ReLU()]
    width = 32
    for wider in (32, 64, 128, 256):
        if wider != width:
            layers += _conv3(width, wider, 2)
        layers += [Residual(*_conv3(wider, wider), *_conv3(wider, wider)[:2])]
        width = wider
    return Plain(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(width, 10))


def volume_unet():
    """A path down and up again through a volume, as for medical images."""
    return Plain(*_conv3(1, 16), *_conv3(16, 32, 2), *_conv3(32, 64, 2),
                 nn.ConvTranspose3d(64, 32, 2, 2), nn.ReLU(), nn.ConvTranspose3d(32, 16, 2, 2),
                 nn.ReLU(), nn.Conv3d(16, 3, 1))


def image_generator():
    """The transposed convolutions of a generator of images."""
    layers, width = [nn.ConvTranspose2d(64, 256, 4), nn.BatchNorm2d(256), nn.ReLU()], 256
    while width > 32:
        layers += [nn.ConvTranspose2d(width, width // 2, 4, 2, 1), nn.BatchNorm2d(width // 2),
                   nn.ReLU()]
        width //= 2
    return Plain(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())


def vocoder():
    """Transposed and dilated convolutions over time, as of a generator of sound."""
    layers, width = [nn.Conv1d(80, 128, 7, padding=3)], 128
    for stride in (8, 4, 2):
        layers += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(width, width // 2, 2 * stride, stride,
                                                         stride // 2)]
        width //= 2
        layers += [Residual(nn.Conv1d(width, width, 3, padding=3, dilation=3))]
    return Plain(*layers, nn.Conv1d(width, 1, 7, padding=3), nn.Tanh())


_OWN = {
    "video_resnet": (video_resnet, lambda: {"x": torch.randn(1, 3, 8, 64, 64)}),
    "volume_unet": (volume_unet, lambda: {"x": torch.randn(1, 1, 16, 48, 48)}),
    "image_generator": (image_generator, lambda: {"x": torch.randn(1, 64, 1, 1)}),
    "vocoder": (vocoder, lambda: {"x": torch.randn(1, 80, 32)}),
}

_TIMM = ("resnext50_32x4d", "densenet121", "mobilenetv3_small_100", "ghostnet_100", "mixer_s32_224",
         "regnety_002", "xcit_nano_12_p16_224", "coat_tiny")


@dataclass(frozen=True)
class Architecture:
    """One row of the survey.

    Attributes:
        name: as printed.
        make: a module in eval mode.
        inputs: its keyword arguments.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], dict]


# Sizes of GPT-2, where those that an architecture has by default make billions of parameters.
_FULL_DECODER = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                     num_key_value_heads=4, intermediate_size=3072, vocab_size=32000,
                     pad_token_id=0, bos_token_id=1, eos_token_id=2)
_FULL = {name: _FULL_DECODER for name in (
    "gpt_neox", "llama", "mistral", "qwen2", "phi", "olmo", "phi3", "falcon")}
_FULL |= {name: dict(_FULL_DECODER, head_dim=64) for name in ("gemma", "gemma2", "qwen3")}
_FULL |= {"deberta-v2": _FULL_DECODER,
          "gpt_neo": dict(hidden_size=768, num_layers=12, num_heads=12, vocab_size=32000,
                          attention_types=[[["global", "local"], 6]]),
          "mixtral": dict(_FULL_DECODER, num_hidden_layers=6, num_local_experts=4),
          "olmoe": dict(_FULL_DECODER, num_hidden_layers=6, intermediate_size=512, num_experts=32),
          "qwen2_moe": dict(_FULL_DECODER, num_hidden_layers=6, moe_intermediate_size=512,
                            num_experts=32, shared_expert_intermediate_size=1024),
          "gptj": dict(n_embd=768, n_layer=12, n_head=12, rotary_dim=64, vocab_size=32000),
          "mpt": dict(d_model=768, n_heads=12, n_layers=12, vocab_size=32000),
          "bloom": dict(hidden_size=768, n_layer=12, n_head=12, vocab_size=32000),
          "mamba2": dict(hidden_size=768, num_hidden_layers=24, vocab_size=32000, num_heads=24,
                         head_dim=64),
          "rwkv": dict(hidden_size=768, num_hidden_layers=12, vocab_size=32000)}
_FULL_INPUTS: dict[str, Callable[[], dict]] = {
    "tokens": lambda: {"input_ids": _tokens(128)},
    "long": lambda: {"input_ids": _tokens(1024)},
    "pairs": lambda: {"input_ids": _tokens(128), "decoder_input_ids": _tokens(64)},
    "sound": lambda: {"input_values": torch.randn(1, 32000)},
    "wave": lambda: {"input_values": torch.randn(1, 1, 24000)},
    "spectrum": lambda: {"input_features": torch.randn(1, 80, 3000),
                         "decoder_input_ids": _tokens(16)},
    "spectrogram": lambda: {"input_values": torch.randn(1, 1024, 128)},
}


def _of_transformers(name, full):
    options, kind = _TRANSFORMERS[name]
    config = partial(tf.AutoConfig.for_model, name, **(_FULL.get(name, {}) if full else options))
    inputs = _INPUTS[kind]
    if full:
        inputs = _FULL_INPUTS.get(kind) or (lambda: _full_input(config(), kind))
    return Architecture(name, lambda: First(tf.AutoModel.from_config(config())), inputs)


def _full_input(config, kind):
    """Images and videos of the size that the model is for; sequences of its length."""
    if kind == "series":
        return {"past_values": torch.randn(1, config.context_length, config.num_input_channels)}
    size = getattr(config, "image_size", 224)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    frames = [getattr(config, "num_frames", 16)] if kind == "video" else []
    return {"pixel_values": torch.randn(1, *frames, 3, height, width)}


class _Names(type):
    """Of classes whose every attribute is its name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Empty(types.ModuleType):
    """Has an empty class of every name."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Names(name, (), {})


@contextlib.contextmanager
def _torchvision():
    """Stands in for torchvision while timm is imported."""
    if importlib.util.find_spec("torchvision") is not None:
        yield
        return
    made = {}
    for name in ("", ".datasets", ".transforms", ".transforms.functional", ".ops", ".ops.misc",
                 ".models", ".models.feature_extraction"):
        path = "torchvision" + name
        made[path] = _Empty(path)
        if name:
            above, _, last = path.rpartition(".")
            setattr(made[above], last, made[path])
    sys.modules.update(made)
    try:
        yield
    finally:
        for path in made:
            del sys.modules[path]


def _of_timm(name):
    def make():
        with _torchvision():
            import timm

        return Plain(timm.create_model(name, pretrained=False))

    return Architecture(f"timm {name}", make, lambda: {"x": torch.randn(1, 3, 224, 224)})


def _of_diffusers():
    def make():
        import diffusers

        return First(diffusers.UNet2DModel(
            sample_size=32, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D")))

    return Architecture("diffusers UNet2D", make,
                        lambda: {"sample": torch.randn(1, 3, 32, 32), "timestep": torch.tensor(7)})


def architectures(full: bool = False) -> list[Architecture]:
    """All that can be made here, in the order of the table. full: transformers' in full size."""
    rows = [_of_transformers(name, full) for name in _TRANSFORMERS]
    rows += [Architecture(name, make, inputs) for name, (make, inputs) in _OWN.items()]
    if importlib.util.find_spec("timm"):
        rows += [_of_timm(name) for name in _TIMM]
    if importlib.util.find_spec("diffusers"):
        rows.append(_of_diffusers())
    return rows
