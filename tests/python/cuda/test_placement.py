"""What a model makes on the CPU for tensors on a GPU. The GPU here is one that graphs speak of:
nothing runs on it, so the tests stop at the partition."""

import pytest
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from torch_vulkan._base.settings import Settings
from torch_vulkan._fx import splitting
from torch_vulkan._fx.prepare import prepare
from torch_vulkan._native import C

aten = torch.ops.aten
CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")


class Captured:
    """A captured graph, written by hand."""

    def __init__(self):
        self.mode = FakeTensorMode()
        self.graph = fx.Graph()
        self.root = torch.nn.Module()

    def result(self, node, shape, dtype=torch.float32, device=CUDA):
        with self.mode:
            node.meta["val"] = torch.empty(shape, dtype=dtype, device=device)
        return node

    def input(self, shape, dtype=torch.float32, device=CUDA):
        node = self.graph.placeholder(f"x{len(self.graph.nodes)}")
        return self.result(node, shape, dtype, device)

    def constant(self, value: torch.Tensor):
        name = f"_tensor_constant{len(self.graph.nodes)}"
        setattr(self.root, name, value)
        copy = self.graph.call_function(aten.lift_fresh_copy.default, (self.graph.get_attr(name),))
        return self.result(copy, value.shape, value.dtype, CPU)

    def chain(self, x, length=6):
        for _ in range(length):
            shape = x.meta["val"].shape
            x = self.result(self.graph.call_function(aten.tanh.default, (x,)), shape)
        return x

    def arange(self, n):
        node = self.graph.call_function(aten.arange.default, (n,),
                                        {"device": CPU, "pin_memory": False})
        return self.result(node, (n,), torch.int64, CPU)

    def copy(self, x, dtype=torch.float32):
        node = self.graph.call_function(aten._to_copy.default, (x,),
                                        {"dtype": dtype, "device": CUDA})
        return self.result(node, x.meta["val"].shape, dtype)

    def add(self, a, b):
        node = self.graph.call_function(aten.add.Tensor, (a, b))
        return self.result(node, a.meta["val"].shape, device=a.meta["val"].device)

    def split(self, *outputs):
        """What a compilation would make of it, and the graph then."""
        self.graph.output(outputs)
        module = fx.GraphModule(self.root, self.graph)
        prepare(module, len(outputs))
        parts = splitting.split(module, set(), Settings(dryrun=True),
                                C.DeviceProfile.builtin_default())
        return parts, module.graph


def devices(graph):
    return {node.meta["val"].device for node in graph.nodes
            if isinstance(node.meta.get("val"), torch.Tensor)}


def reasons(parts):
    return {record.op: record.reason for record in parts.in_the_way}


@pytest.mark.parametrize("copied", ["not", "_to_copy", "device_put"])
def test_a_list_as_an_index(copied, monkeypatch):
    moved = []
    monkeypatch.setattr(torch.Tensor, "to",  # there is no such device
                        lambda tensor, device: moved.append(device) or tensor)
    g = Captured()
    x = g.chain(g.input((4, 6)))
    index = g.constant(torch.tensor([2, 0, 1]))
    if copied == "_to_copy":
        index = g.copy(index, torch.int64)
    elif copied == "device_put":
        put = g.graph.call_function(torch.ops.prims.device_put.default, (index, CUDA))
        index = g.result(put, (3,), torch.int64)
    y = g.graph.call_function(aten.index.Tensor, (x, [None, index]))
    parts, graph = g.split(g.chain(g.result(y, (4, 3))))
    assert parts.engines == ["engine_0"] and not parts.in_the_way
    assert moved == [CUDA] and devices(graph) == {CUDA}


def test_a_mask_that_is_copied():
    g = Captured()
    x = g.chain(g.input((4, 6)))
    mask = g.graph.call_function(aten.ge.Scalar, (g.arange(6), 3))
    mask = g.copy(g.result(mask, (6,), torch.bool, CPU))
    parts, graph = g.split(g.chain(g.add(x, mask)))
    assert parts.engines == ["engine_0"] and not parts.in_the_way
    assert devices(graph) == {CUDA}


def test_what_the_caller_gets_stays_on_its_device():
    g = Captured()
    x = g.chain(g.input((4, 6)))
    steps = g.arange(6)
    parts, graph = g.split(g.chain(g.add(x, g.copy(steps))), steps)
    assert graph.output_node().args[0][1].meta["val"].device == CPU
    assert reasons(parts) == {
        "aten::arange": "it computes on cpu, engines of its graph on cuda:0",
        "aten::_to_copy": "its tensors live on several devices"}


def test_what_comes_from_the_cpu_stays_there():
    g = Captured()
    x = g.chain(g.input((4, 6)))
    given = g.add(g.input((6,), device=CPU), g.arange(6))
    parts, graph = g.split(g.chain(g.add(x, g.copy(given))))
    assert CPU in devices(graph)
    assert reasons(parts).keys() == {"aten::add.Tensor", "aten::arange", "aten::_to_copy"}


def test_an_engine_computes_on_one_device():
    g = Captured()
    on_cpu = g.input((3, 5), device=CPU)
    for _ in range(8):
        on_cpu = g.result(g.graph.call_function(aten.sin.default, (on_cpu,)), (3, 5), device=CPU)
    parts, _ = g.split(g.chain(g.input((4, 6))), on_cpu)
    assert parts.engines == ["engine_0"] and parts.covered_nodes == 6
    assert reasons(parts) == {"aten::sin": "it computes on cpu, engines of its graph on cuda:0"}


def test_numbers_on_the_cpu_are_read_anywhere():
    """A 0-d tensor is taken by operators on any device."""
    g = Captured()
    x = g.chain(g.input((4, 6)))
    scale = g.graph.call_function(aten.scalar_tensor.default, (0.5,),
                                  {"dtype": torch.float32, "device": CPU})
    parts, graph = g.split(g.chain(g.add(x, g.result(scale, (), device=CPU))))
    assert parts.engines == ["engine_0"] and not parts.in_the_way
    assert devices(graph) == {CUDA}
