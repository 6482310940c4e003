"""Quantisation-aware training's `fused_moving_avg_obs_fake_quant` taken apart: a moving average of
the range, the scale and zero point of it, and the tensor rounded to their grid."""

import torch

aten = torch.ops.aten
_LEAST_SCALE = 6.1e-5  # smaller ones are replaced (ATen/native/quantized/cpu/QuantUtils.h)


def fused_moving_avg_obs_fq(x, observer_on, fake_quant_on, running_min, running_max, scale,
                            zero_point, averaging_const, quant_min, quant_max, ch_axis,
                            per_row_fake_quant=False, symmetric_quant=False):
    """Of aten::_fused_moving_avg_obs_fq_helper_functional, in float32 where eager mode chooses
    scales in float64. Buffers that it would resize are left to it."""
    if resizes(running_min, per_row_fake_quant):
        return NotImplemented
    observes, rounds = (flag.reshape(()) != 0 for flag in (observer_on, fake_quant_on))
    dims = [d for d in range(x.dim()) if not per_row_fake_quant or d != ch_axis % x.dim()]
    ends = (x.amin(dims), x.amax(dims)) if dims else (x, x)
    low, high = (_averaged(end.float(), running, averaging_const, observes)
                 for end, running in zip(ends, (running_min, running_max), strict=True))
    chosen = _chosen(low, high, quant_min, quant_max, symmetric_quant)
    scale, zero_point = (
        torch.where(rounds, new.reshape(old.shape).to(old.dtype), old)
        for new, old in zip(chosen, (scale, zero_point), strict=True))
    if per_row_fake_quant:
        y, mask = aten.fake_quantize_per_channel_affine_cachemask(
            x, scale, zero_point, ch_axis, quant_min, quant_max)
        y, mask = torch.where(rounds, y, x), mask | ~rounds
    else:
        y, mask = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            x, scale, zero_point, fake_quant_on, quant_min, quant_max)
    return y, mask, low, high, scale, zero_point


def resizes(running_min: torch.Tensor, per_row_fake_quant: bool) -> bool:
    """Whether the operator gives ranges, which begin without elements, the number of channels."""
    return per_row_fake_quant and running_min.numel() == 0


def _averaged(end, running, averaging_const, observes):
    """The end of a range after a batch; infinity: none has been seen."""
    end = end.reshape(running.shape)
    moved = torch.where(running.isinf(), end, running + averaging_const * (end - running))
    return torch.where(observes, moved, running)


def _chosen(low, high, first, last, symmetric: bool):
    """(scale, zero point) of a grid from `first` to `last` that covers the range, which holds 0."""
    if symmetric:
        half = (last - first) // 2
        most = torch.maximum((low / (half + 1)).abs(), (high / half).abs())
        crosses = (low < 0) & (high > 0)
        low = torch.where(crosses, most * -(half + 1), low)
        high = torch.where(crosses, most * half, high)
    low, high = low.clamp(max=0), high.clamp(min=0)
    scale = (high - low) / (last - first)
    scale = torch.where((scale == 0) | (1 / scale).isinf(), 0.1, scale)
    small, widest = scale < _LEAST_SCALE, _LEAST_SCALE * (last - first)
    factor = _LEAST_SCALE / scale
    wider = (torch.where((high == 0) & (low != 0), -widest, low * factor),
             torch.where(low == 0, widest, high * factor))
    low, high = (torch.where(small, new, old) for new, old in zip(wider, (low, high), strict=True))
    scale = scale.clamp(min=_LEAST_SCALE)
    below, above = low / scale, high / scale
    nearer = abs(first) - below.abs() < abs(last) - above.abs()
    zero = torch.where(nearer, first - below, last - above)
    if symmetric:
        zero = torch.where((low < 0) & (high > 0), (first + last) / 2, zero)
    return scale, zero.clamp(first, last).round()


DECOMPOSITIONS = {aten._fused_moving_avg_obs_fq_helper_functional.default: fused_moving_avg_obs_fq}
