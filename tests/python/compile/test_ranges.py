"""What a user says of sizes (torch_vulkan/_torch/ranges.py)."""

import torch

from torch_vulkan._torch import compat
from torch_vulkan._torch.ranges import Ranges, Sizes, compiled_for


def captured():
    """(the environment of a program's symbols, its one symbol), of sizes up to 16, captured at 4.
    """
    dims = {"input": {0: torch.export.Dim("n", max=16)}}
    program = torch.export.export(torch.nn.ReLU(), (torch.randn(4, 3),), dynamic_shapes=dims)
    (node,) = program.graph.find_nodes(op="placeholder")
    return compat.shape_env_of(program.graph_module), node.meta["val"].shape[0].node.expr


def test_what_is_said_goes_before_what_was_captured():
    env, n = captured()
    assert (Ranges(env).usual(n), Ranges(env).bounds(n)[1]) == (4, 16)
    with compiled_for(Sizes({n: (1, 8, 32)}, [{n: (1, 1, 1)}, {n: (2, 8, 32)}])):
        whole, first = Ranges(env), Ranges(env, {n: (1, 1, 1)})
        assert (whole.usual(n), whole.bounds(n), whole.only_value(n + 1)) == (8, (1, 32), None)
        assert (first.usual(n), first.bounds(n), first.only_value(n + 1)) == (1, (1, 1), 2)
        assert whole.are_given


def test_nothing_of_it_stays():
    env, n = captured()
    with compiled_for(Sizes({n: (1, 8, 32)})):
        pass
    assert not Ranges(env).are_given
    assert Ranges(env).usual(n) == 4
    assert not [name for name in vars(env) if "torch_vulkan" in name]
