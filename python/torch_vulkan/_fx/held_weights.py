"""A list of weights that is handed over as one object where it is the list of the call before.

PyTorch looks at every tensor of a list that an operator takes, several times: about 0.3 µs each.
"""

from operator import is_

import torch


class HeldWeights:
    """Remembers the weights of the last call, and keeps them alive until the next one."""

    def __init__(self):
        self._last = ([], None)  # replaced as a whole: several threads call one engine

    def hold(self, weights: list[torch.Tensor]):
        """`weights` as a torch.classes.torch_vulkan.Weights, from the second call with the very
        same tensors on; None before. A change in place is seen all the same."""
        tensors, held = self._last
        if not weights or len(tensors) != len(weights) or not all(map(is_, tensors, weights)):
            self._last = (weights, None)
            return None
        if held is None:
            held = torch.classes.torch_vulkan.Weights(weights)
            self._last = (weights, held)
        return held

    def __deepcopy__(self, memo):
        return HeldWeights()

    def __reduce__(self):
        return HeldWeights, ()
