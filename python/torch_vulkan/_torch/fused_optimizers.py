"""Optimizers' fused steps (`_fused_adam`, …) as operators on each tensor: the sums of PyTorch's
kernels, in the type that these compute in."""

import contextlib
import functools
import math
import sys

import torch

from .strides import same

aten = torch.ops.aten
# type of the tensors → that of the sums
_SUMS = {torch.float64: torch.float64,
         **dict.fromkeys((torch.float32, torch.bfloat16, torch.float16), torch.float32)}


@contextlib.contextmanager
def traced():
    """While it lasts, Dynamo traces fused steps, which it otherwise leaves to Python."""
    steps = [*filter(None, map(_step, ("adam", "adagrad", "sgd")))]
    for step in steps:
        step._torchdynamo_disable = False
    try:
        yield
    finally:
        for step in steps:
            step._torchdynamo_disable = True


@functools.cache
def _step(name: str):
    """The fused step of an optimizer, in its module in place of a wrapper that Dynamo does not
    trace into: compiled code checks that the function is still the one that was traced. Dynamo
    leaves the function alone for as long as it says so."""
    from torch._dynamo import eval_frame

    eval_frame.TorchPatcher.patch()
    module = sys.modules[f"torch.optim.{name}"]
    step = getattr(module, f"_fused_{name}", None)
    if not hasattr(step, "_torchdynamo_orig_callable"):
        return None
    step, reason = step._torchdynamo_orig_callable, step._torchdynamo_disable_msg
    step._torchdynamo_disable, step._torchdynamo_disable_msg = True, reason
    eval_frame.set_code_exec_strategy(step.__code__, eval_frame.FrameExecStrategy(
        eval_frame.FrameAction.SKIP, eval_frame.FrameAction.SKIP))
    setattr(module, f"_fused_{name}", step)
    return step


def _are_alike(*lists) -> bool:
    """Whether the tensors of each step have one type and lie alike, as PyTorch's kernels want
    them."""
    if len({len(tensors) for tensors in lists}) != 1:
        return False
    return all(first.dtype in _SUMS and all(
        t.dtype == first.dtype and t.dim() == first.dim()
        and all(map(same, (*t.shape, *t.stride()), (*first.shape, *first.stride())))
        for t in rest) for first, *rest in zip(*lists, strict=True))


def _number(value, like):
    """A learning rate or a count of steps, which may be a tensor, in the type of `like`."""
    return value.to(like.dtype) if isinstance(value, torch.Tensor) else value


def _wide(*tensors):
    """Tensors in the type of the sums."""
    return [tensor.to(_SUMS[tensor.dtype]) for tensor in tensors]


def _unscaled(grad, grad_scale, maximize: bool):
    """(the gradient that is left in its place, what the step takes for it)."""
    kept = grad if grad_scale is None else grad / grad_scale.to(grad.dtype)
    return kept, -kept if maximize else kept


def _bias(beta: float, step):
    """1 - beta^step, which PyTorch's kernels compute in float64."""
    return -torch.expm1(step * math.log(beta)) if beta > 0 else 1.0


def _where_finite(found_inf, results, before):
    """The results of a step, or what there was where gradients were not finite, in their type."""
    def left(old, new):
        new = new.to(old.dtype)
        return new if found_inf is None else torch.where(found_inf == 1, old, new)

    return tuple([left(old, new) for old, new in zip(olds, news, strict=True)]
                 for olds, news in zip(before, results, strict=True))


def _adam(decoupled: bool):
    """_fused_adam, or _fused_adamw, whose decay of weights is not part of the gradient."""
    def adam(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, beta2,
             weight_decay, eps, amsgrad, maximize, grad_scale=None, found_inf=None):
        before = self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs
        if not _are_alike(*before[:5 if amsgrad else 4]) or len(state_steps) != len(self):
            return NotImplemented
        results = [], [], [], [], []
        for i in range(len(self)):
            param, grad, mean, square = _wide(*(tensors[i] for tensors in before[:4]))
            step, rate = _number(state_steps[i], param), _number(lr, param)
            kept, grad = _unscaled(grad, grad_scale, maximize)
            if weight_decay != 0 and decoupled:
                param = param * (1 - rate * weight_decay)
            elif weight_decay != 0:
                grad = grad + param * weight_decay
            mean = torch.lerp(mean, grad, 1 - beta1)
            square = square * beta2 + grad * grad * (1 - beta2)
            greatest = torch.maximum(*_wide(max_exp_avg_sqs[i]), square) if amsgrad else square
            bias = _bias(beta2, step)
            root = bias.sqrt() if isinstance(bias, torch.Tensor) else bias
            param = param - rate / _bias(beta1, step) * mean / (greatest.sqrt() / root + eps)
            for result, value in zip(results, (param, kept, mean, square, greatest), strict=True):
                result.append(value)
        return _where_finite(found_inf, (*results[:4], results[4] if amsgrad else []), before)

    return adam


def _sgd(self, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov,
         maximize, is_first_step, grad_scale=None, found_inf=None):
    before = self, grads, momentum_buffer_list
    if any(param.dtype.itemsize == 2 for param in self):
        return NotImplemented  # PyTorch's kernel for the CPU leaves parameters as they are (2.13)
    if not _are_alike(*before[:3 if momentum_buffer_list else 2]) or (
            momentum != 0 and not momentum_buffer_list):
        return NotImplemented
    results = [], [], []
    for i, (param, grad) in enumerate(zip(self, grads, strict=True)):
        kept, grad = _unscaled(grad, grad_scale, maximize)
        if weight_decay != 0:
            grad = grad + param * weight_decay
        if momentum != 0:
            buffer = grad if is_first_step else (
                momentum_buffer_list[i] * momentum + grad * (1 - dampening))
            grad = grad + buffer * momentum if nesterov else buffer
            results[2].append(buffer)
        results[0].append(param - grad * _number(lr, param))
        results[1].append(kept)
    if momentum == 0:
        results = *results[:2], momentum_buffer_list
    return _where_finite(found_inf, results, before)


def _adagrad(self, grads, state_sums, state_steps, *, lr, lr_decay, weight_decay, eps, maximize,
             grad_scale=None, found_inf=None):
    before = self, grads, state_sums
    if not _are_alike(*before) or len(state_steps) != len(self):
        return NotImplemented
    results = [], [], []
    for i, step in enumerate(state_steps):
        param, grad, total = _wide(*(tensors[i] for tensors in before))
        kept, grad = _unscaled(grad, grad_scale, maximize)
        if weight_decay != 0:
            grad = grad + param * weight_decay
        total = total + grad * grad
        rate = _number(lr, param) / (1 + (_number(step, param) - 1) * lr_decay)
        param = param - rate * grad / (total.sqrt() + eps)
        for result, value in zip(results, (param, kept, total), strict=True):
            result.append(value)
    return _where_finite(found_inf, results, before)


def _in_place(step, own):
    """A step that changes its lists, for AOTAutograd, which cannot make PyTorch's functional where
    a list is empty; `own` is PyTorch's."""
    def change(*lists, **kwargs):
        made = step(*lists, **kwargs)
        if made is NotImplemented:
            with torch._C._AutoDispatchBelowAutograd():
                return own(*lists, **kwargs)
        for olds, news in zip(lists, made, strict=False):
            for old, new in zip(olds, news, strict=True):
                if new is not old:
                    old.copy_(new)
        return None

    return change


_STEPS = {aten._fused_adam_: _adam(False), aten._fused_adamw_: _adam(True),
          aten._fused_sgd_: _sgd, aten._fused_adagrad_: _adagrad}
# Operators → what is traced in their place.
TRACED = {own: _in_place(step, own) for packet, step in _STEPS.items()
          for own in (packet.default, packet.tensor_lr)}
