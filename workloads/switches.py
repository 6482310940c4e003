"""Gradients beside the switches of ReLUs.

Where an activation's input lies nearer to a switch than float32 tells numbers apart, rounding alone
decides on which side it falls, and both sides' gradients are right. `Switches` finds these places
in a float64 model and computes its gradients with any of them on the other side.
"""

import torch

# The switches of each activation: (where, the slope below, the slope above).
_SWITCHES = {torch.nn.ReLU: ((0.0, 0.0, 1.0),),
             torch.nn.ReLU6: ((0.0, 0.0, 1.0), (6.0, 1.0, 0.0))}


class Switches:
    """The places of a float64 model's activations that float32 cannot tell from a switch.

    Use it as a context around passes of `module`, with `restart` before each.

    Attributes:
        near: of the last pass without moved places: (layer, element, by how much the slope
            changes), nearest first; an element counts where its distance from the switch is at most
            `share` (float32's last place) of the layer's largest.
    """

    def __init__(self, module: torch.nn.Module, share: float = 2**-23):
        self._layers = [m for m in module.modules() if type(m) in _SWITCHES]
        self._share = share
        self._found = []
        self.restart()

    @property
    def near(self) -> list[tuple[int, int, float]]:
        return [place for _, place in sorted(self._found)]

    def __enter__(self):
        self._hooks = [layer.register_forward_hook(self._at) for layer in self._layers]
        return self

    def __exit__(self, *_):
        for hook in self._hooks:
            hook.remove()

    def restart(self, moved=()) -> None:
        """Before each forward pass: the places whose other side it takes."""
        self._moved, self._calls = tuple(moved), 0
        if not moved:
            self._found = []

    def _at(self, layer, inputs, output):
        (x,) = inputs
        number, self._calls = self._calls, self._calls + 1
        if not self._moved:
            self._look(number, layer, x.detach())
        mine = [(element, by) for layer, element, by in self._moved if layer == number]
        if not mine:
            return output
        change = torch.zeros(x.numel(), dtype=x.dtype)
        for element, by in mine:
            change[element] = by
        return output + (x - x.detach()) * change.reshape(x.shape)

    def _look(self, number, layer, x):
        flat = x.reshape(-1)
        for where, below, above in _SWITCHES[type(layer)]:
            distance = (flat - where).abs() / flat.abs().max()
            for element in (distance <= self._share).nonzero()[:, 0].tolist():
                slope = below if flat[element] <= where else above  # at the switch: torch's slope
                by = below + above - 2 * slope
                self._found.append((distance[element].item(), (number, element, by)))


def nearest(error_of, wanted, switches: Switches, gradients, limit: float):
    """The least error over references with switches on either side, and how many were moved.

    A greedy search, nearest first, that keeps each move which lowers the error and ends below
    `limit`.

    Args:
        error_of: of a list of gradients in float64.
        wanted: these gradients with no place moved, of the pass that `switches` looked at last.
        gradients: () -> these gradients, by a forward and a backward pass of the model.
    """
    best, kept = error_of(wanted), ()
    for place in switches.near:
        if best <= limit:
            break
        switches.restart((*kept, place))
        error = error_of(gradients())
        if error < best:
            best, kept = error, (*kept, place)
    return best, len(kept)
