"""Small configurations of architectures from transformers, and a denoising UNet written here.

Each function takes `reduced` (bool): True makes the sizes that the tests use.
"""

import torch
import transformers as tf
from torch import nn
from torch.nn import functional as F


def llama(reduced):
    """Rotary embeddings, grouped queries, RMS norms, gated SiLU."""
    width, layers = (48, 2) if reduced else (256, 4)
    return tf.LlamaForCausalLM(tf.LlamaConfig(
        hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, vocab_size=1000, use_cache=False,
        max_position_embeddings=256))


def t5(reduced):
    """Encoder and decoder with relative position biases."""
    width, layers = (48, 2) if reduced else (256, 4)
    return tf.T5Model(tf.T5Config(
        d_model=width, d_kv=16, d_ff=2 * width, num_layers=layers, num_heads=4, vocab_size=1000,
        use_cache=False))


def whisper(reduced):
    """Convolutions over a spectrogram, an encoder and a decoder with cross attention."""
    width, layers, frames = (48, 2, 50) if reduced else (256, 4, 250)
    return tf.WhisperModel(tf.WhisperConfig(
        d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=2 * width, decoder_ffn_dim=2 * width,
        vocab_size=1000, max_source_positions=frames, max_target_positions=64, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False))


def swin(reduced):
    """Attention in shifted windows."""
    width, depths = (16, [2, 2]) if reduced else (48, [2, 2, 2, 2])
    return tf.SwinForImageClassification(tf.SwinConfig(
        image_size=64 if reduced else 224, embed_dim=width, depths=depths,
        num_heads=[2 ** i for i in range(1, 1 + len(depths))], window_size=4 if reduced else 7,
        num_labels=10))


def convnext(reduced):
    """Depthwise 7 x 7 convolutions, channels last."""
    sizes, depths = ([16, 32], [2, 1]) if reduced else ([32, 64, 128, 256], [2, 2, 4, 2])
    return tf.ConvNextForImageClassification(tf.ConvNextConfig(
        hidden_sizes=sizes, depths=depths, num_stages=len(sizes), num_labels=10))


def detr(reduced):
    """A ResNet, an encoder over its pixels, a decoder of object queries."""
    width, layers = (32, 1) if reduced else (128, 3)
    backbone = tf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64], depths=[1, 1, 1],
                               out_features=["stage3"])
    return tf.DetrForObjectDetection(tf.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
        backbone_config=backbone, d_model=width, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=2 * width,
        decoder_ffn_dim=2 * width, num_queries=20, num_labels=10))


def segformer(reduced):
    """Attention over reduced maps; the maps of all stages are resized and joined."""
    sizes, depths = ([8, 16, 24, 32], [1, 1, 1, 1]) if reduced else ([32, 64, 160, 256],
                                                                     [2, 2, 2, 2])
    return tf.SegformerForSemanticSegmentation(tf.SegformerConfig(
        hidden_sizes=sizes, depths=depths, decoder_hidden_size=sizes[-1], num_labels=10))


class UNet(nn.Module):
    """A network that denoises images: group norms, SiLU, time embeddings, attention at the lowest
    resolution, nearest resizing, skip connections."""

    def __init__(self, width, levels):
        super().__init__()
        widths = [width * 2 ** level for level in range(levels)]
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(),
                                  nn.Linear(4 * width, 4 * width))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList()
        last = width
        for wide in widths:
            self.down.append(_Residual(last, wide, 4 * width))
            self.down.append(nn.Conv2d(wide, wide, 3, stride=2, padding=1))
            last = wide
        self.middle = nn.ModuleList([_Residual(last, last, 4 * width), _Attention(last),
                                     _Residual(last, last, 4 * width)])
        self.up = nn.ModuleList()
        for wide in reversed(widths):
            self.up.append(nn.Conv2d(last, wide, 3, padding=1))
            self.up.append(_Residual(2 * wide, wide, 4 * width))
            last = wide
        self.norm = nn.GroupNorm(4, last)
        self.last = nn.Conv2d(last, 3, 3, padding=1)

    def forward(self, sample, timestep):
        time = self.time(self._embedding(timestep))
        x, skipped = self.first(sample), []
        for block, halve in zip(self.down[::2], self.down[1::2], strict=True):
            x = block(x, time)
            skipped.append(x)
            x = halve(x)
        first, attention, second = self.middle
        x = second(attention(first(x, time)), time)
        for widen, block in zip(self.up[::2], self.up[1::2], strict=True):
            x = widen(F.interpolate(x, scale_factor=2.0, mode="nearest"))
            x = block(torch.cat([x, skipped.pop()], 1), time)
        return (self.last(F.silu(self.norm(x))),)

    def _embedding(self, timestep):
        half = self.first.out_channels // 2
        rates = torch.exp(torch.arange(half, device=timestep.device) * (-9.2103 / half))
        angles = timestep[:, None].float() * rates
        return torch.cat([angles.cos(), angles.sin()], -1).to(self.first.weight.dtype)


class _Residual(nn.Module):
    def __init__(self, ic, oc, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, ic), nn.Conv2d(ic, oc, 3, padding=1)
        self.time = nn.Linear(time, oc)
        self.norm2, self.conv2 = nn.GroupNorm(4, oc), nn.Conv2d(oc, oc, 3, padding=1)
        self.skip = nn.Conv2d(ic, oc, 1) if ic != oc else nn.Identity()

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class _Attention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x):
        n, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = (part.unflatten(-1, (4, c // 4)).transpose(1, 2)
                   for part in self.qkv(y).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(y).transpose(1, 2).unflatten(2, (h, w))


def unet(reduced):
    """The UNet above."""
    return UNet(16, 2) if reduced else UNet(32, 3)


class Block(nn.Module):
    """A layer of a transformer with two heads and norms in front, [batch, length, width]; `causal`:
    of each position only those before it are read."""

    def __init__(self, width, causal=False):
        super().__init__()
        self.causal = causal
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        values = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(values.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))
