"""What engines of a program write before its last engine runs (docs/design/0017).

Where an engine refuses the sizes of a call, a program is computed natively as a whole, from the
state before the call. So what was written by then is put back, which needs a copy of it: in calls
whose sizes no call of these engines has had before. Later ones write in place and copy nothing.
"""

import itertools
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
        self._generations = itertools.count()
        self._opened: tuple[list[torch.Tensor], int] = [], next(self._generations)
        self._held_at: list[int] = []
        self._held_storages: list[int] = []

    def run(self, function, held: list, flat: list):
        """What `function` returns for the tensors that a program holds and the arguments.

        Raises:
            RuntimeError: a call failed whose sizes had been taken before; the message says what
                may hold a part of the result. Other errors say so in a note.
        """
        given = [*held, *flat]
        if not self._places or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return function(*given)
        own = {j: _twin(given[j]) for j in self._shared(held, flat)}
        sizes = tuple((*value.shape, value.device) if isinstance(value, torch.Tensor) else value
                      for value in flat)
        sizes += tuple(given[j].device for j in self._places)
        sizes += (self._generation_of(held),)
        before = {} if sizes in self._taken else {
            j: _State(given[j]) for j in self._places if j not in own}
        try:
            results = function(*(own.get(j, value) for j, value in enumerate(given)))
        except Exception as error:
            for state in before.values():
                state.put_back()
            if before or len(own) == len(self._places):
                raise
            names = ", ".join(name for j, name in zip(self._places, self._names, strict=True)
                              if j not in own)
            partly = f"these may hold a part of the result: {names}"
            if not isinstance(error, NotImplementedError):
                error.add_note(f"torch_vulkan: {partly}")
                raise
            raise RuntimeError(f"{error}; calls of these sizes ran before. The program computes "
                               f"nothing again: {partly}") from error
        if len(self._taken) < _MOST_SIZES:
            self._taken.add(sizes)
        for j, value in own.items():
            given[j].copy_(value)
        return [_shown_by(given, own, result) for result in results] if own else results

    def _generation_of(self, held: list) -> int:
        """A number for the files that the engines have now: one that was tuned in the background
        takes the place of another (docs/design/0026), and may refuse other sizes."""
        now = [value.vke() for value in held if isinstance(value, torch.ScriptObject)]
        files, generation = self._opened  # kept, so that no other file is ever at their addresses
        if [file.data_ptr() for file in now] != [file.data_ptr() for file in files]:
            generation = next(self._generations)
            self._opened, self._taken = (now, generation), set()
        return generation

    def _shared(self, held: list, flat: list) -> list[int]:
        """The places whose memory another tensor shows, too: it is read as it was."""
        at = [_address(value) for value in held]
        if at != self._held_at:
            self._held_at, self._held_storages = at, [_storage(value) for value in held]
        storages = [*self._held_storages, *map(_storage, flat)]
        count = Counter(storages)
        return [j for j in self._places if count[storages[j]] > 1]


def _twin(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, at the beginning of memory of its own."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(),
                                                               strict=True))
    return tensor.new_empty(last + 1).as_strided(tensor.shape, tensor.stride()).copy_(tensor)


def _shown_by(given: list, own: dict[int, torch.Tensor], result):
    """The result, of the caller's memory where it is that of a copy in `own`, or a view of it."""
    for j, twin in own.items():
        if result is twin:
            return given[j]
        if isinstance(result, torch.Tensor) and result.layout == torch.strided and (
                _storage(result) == _storage(twin)):
            return _view_of(given[j], result)
    return result


def _view_of(tensor: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    """What `view` shows of the twin, of the tensor. One of another dtype, or of numbers that are
    still to be conjugated or negated, stays the twin's: its values are right."""
    if view.dtype != tensor.dtype or view.is_conj() or view.is_neg():
        return view
    return tensor.as_strided(view.shape, view.stride(),
                             tensor.storage_offset() + view.storage_offset())


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
