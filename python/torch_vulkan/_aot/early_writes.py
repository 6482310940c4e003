"""What engines of a program write before its last engine runs (docs/design/0017).

Where an engine refuses the sizes of a call, a program is computed natively as a whole, from the
state before the call. So what was written by then is put back, which needs a copy of it: in calls
whose sizes no call has had before. Later ones write in place and copy nothing.
"""

from collections import Counter

import torch
from torch import fx

from .writes import written_by

_execute = torch.ops.torch_vulkan.execute.default
# So many kinds of sizes are remembered; those of more are copied again.
_MOST_SIZES = 1024


class EarlyWrites:
    """Calls a compiled graph so that its state is as before where the call fails for its sizes."""

    def __init__(self, graph: fx.Graph):
        nodes = graph.find_nodes(op="placeholder")
        calls = [node for node in graph.nodes if node.target in (_execute, written_by)]
        self._places = [nodes.index(tensor) for call in calls[:-1] if call.target is written_by
                        for tensor in call.args[1]]
        self._names = [nodes[j].meta.get("torch_vulkan_name", nodes[j].name) for j in self._places]
        self._taken: set[tuple] = set()
        self._held_at: list[int] = []
        self._held_storages: list[int] = []

    def run(self, function, held: list, flat: list):
        """What `function` returns for the tensors that a program holds and the arguments.

        Raises:
            RuntimeError: a call failed whose sizes had been taken before; the message says what
                may hold a part of the result.
        """
        given = [*held, *flat]
        if not self._places or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return function(*given)
        own = {j: given[j].clone() for j in self._shared(held, flat)}
        sizes = tuple((*value.shape, value.device) if isinstance(value, torch.Tensor) else value
                      for value in flat)
        sizes += tuple(given[j].device for j in self._places)
        before = {} if sizes in self._taken else {
            j: _State(given[j]) for j in self._places if j not in own}
        try:
            results = function(*(own.get(j, value) for j, value in enumerate(given)))
        except Exception as error:
            for state in before.values():
                state.put_back()
            if before or len(own) == len(self._places) or (
                    not isinstance(error, NotImplementedError)):
                raise
            raise RuntimeError(f"{error}; calls of these sizes ran before. The program computes "
                               "nothing again: these may hold a part of the result: "
                               f"{', '.join(self._names)}") from error
        if len(self._taken) < _MOST_SIZES:
            self._taken.add(sizes)
        for j, value in own.items():
            given[j].copy_(value)
        return results

    def _shared(self, held: list, flat: list) -> list[int]:
        """The places whose memory another tensor shows, too: it is read as it was."""
        at = [_address(value) for value in held]
        if at != self._held_at:
            self._held_at, self._held_storages = at, [_storage(value) for value in held]
        storages = [*self._held_storages, *map(_storage, flat)]
        count = Counter(storages)
        return [j for j in self._places if count[storages[j]] > 1]


class _State:
    """A tensor as it is now."""

    def __init__(self, tensor: torch.Tensor):
        self._tensor, self._version = tensor, _version(tensor)
        self._value = tensor.clone()

    def put_back(self) -> None:
        if self._version is None or self._version != _version(self._tensor):
            self._tensor.copy_(self._value)


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _address(value) -> int:
    return value.data_ptr() if isinstance(value, torch.Tensor) else 0


def _storage(value) -> object:
    """What tensors of one memory have in common; each other value is alone."""
    if isinstance(value, torch.Tensor) and value.numel() > 0:
        return value.untyped_storage().data_ptr()
    return object()
