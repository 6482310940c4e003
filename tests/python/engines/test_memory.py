"""Device memory: what engines share, what they keep, and what is counted. Programs run in processes
of their own, whose device nothing else uses."""

import pytest

from aot_helpers import python
from marks import turns

COMMON = """
import gc, threading, warnings
import torch, torch_vulkan as tv
from torch import nn
warnings.simplefilter("ignore")
torch.manual_seed(0)
torch.set_grad_enabled(False)
options = {"min_block_size": 1, "optimization_level": 0}

def held(kind):
    return tv.memory_stats()[kind]

def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
"""

# Layers with a graph break behind each: an engine a layer, with activations of one size.
MANY = COMMON + """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        return torch.softmax(self.b(torch.relu(self.a(x))), -1)

class Net(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            torch._dynamo.graph_break()
        return x

def taken(count):
    torch._dynamo.reset()
    gc.collect()
    assert held("arenas") == 0, "the engines went, and so did their memory"
    net, x = Net(count).eval(), torch.randn(512, 64)
    fast = torch.compile(net, backend="vulkan", options=options, dynamic=False)
    for _ in range(3):
        close(fast(x), net(x))
    return held("arenas"), held("staging")

one = taken(1)
assert one[0] >= 512 * 256 * 4
assert taken(6) == one
torch._dynamo.reset()
gc.collect()
assert held("arenas") == 0
"""

PROFILES = COMMON + """
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64), nn.Softmax(-1)).eval()

def taken(*profiles, sizes):
    rows = tv.Input(min_shape=(1, 64), opt_shape=(4, 64), max_shape=(512, 64))
    program = tv.compile(net, [rows], **options, profiles=list(profiles))
    for _ in range(3):
        for size in sizes:
            x = torch.randn(size, 64)
            close(program(x), net(x))
    arenas = held("arenas")
    del program
    gc.collect()
    assert held("arenas") == 0
    return arenas

few = tv.Profile(input=((1, 64), (1, 64), (512, 64)))
many = tv.Profile(input=((1, 64), (512, 64), (512, 64)))
large = taken(many, sizes=[512])
assert taken(few, many, sizes=[1, 512, 300, 2]) == large
"""

THREADS = COMMON + """
def make(width):
    net = nn.Sequential(nn.Linear(32, width), nn.GELU(), nn.Linear(width, 32), nn.Softmax(-1))
    rows = tv.Input(min_shape=(1, 32), opt_shape=(8, 32), max_shape=(256, 32))
    return net.eval(), tv.compile(net.eval(), [rows], **options)

nets = [make(width) for width in (32, 64, 96)]
def largest():
    x = torch.randn(256, 32)
    for net, program in nets:
        close(program(x), net(x))
    return held("arenas") + held("staging")
alone, errors = largest(), []
def call(thread):
    try:
        with torch.no_grad():
            for i in range(40):
                net, program = nets[(thread + i) % len(nets)]
                x = torch.randn(1 + (37 * i + 11 * thread) % 256, 32)
                close(program(x), net(x))
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not errors, errors
assert held("arenas") + held("staging") <= 9 * alone
tv.release_memory()
assert held("arenas") == held("staging") == 0
assert largest() == alone
assert tv.memory_stats()["peak"] >= alone
tv.reset_peak_memory_stats()
assert tv.memory_stats()["peak"] == held("all") == sum(
    held(kind) for kind in ("arenas", "weights", "slots", "staging", "shared", "other"))
del nets[:], call
gc.collect()
assert held("arenas") == held("staging") == held("weights") == 0
"""

# Tensors are copied as on a GPU: the device has what is packed, the host what it was made from.
WEIGHTS = COMMON + """
net = nn.Sequential(nn.Conv2d(16, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3),
                    nn.Flatten(), nn.Linear(64 * 16, 128)).eval()
x = torch.randn(2, 16, 8, 8)
before = held("weights")
program = tv.compile(net, [x], **options)
close(program(x), net(x))
kept = held("weights") - before
parameters = sum(t.nbytes for t in net.state_dict().values())
(engine,) = tv.engines(program)
# Three pieces of 16 bits for a number, and the number, for results that are not finite.
pieces = any("x3_" in layer["tactic"] for layer in engine.info()["layers"])
most = 2.75 if pieces else 1.25
assert 0 < kept <= most * parameters, f"padding and nothing else: {kept} of {parameters}"
assert held("weights") - before == kept + engine.info()["memory"]["weights_held"] == 2 * kept
del engine
gc.collect()
assert held("weights") - before == kept
for _ in range(3):
    for parameter in net.parameters():
        parameter.mul_(1.01)
    tv.refit(program, net)
    close(program(x), net(x))
assert held("weights") - before == kept
del program
gc.collect()
assert held("weights") == before
"""


@turns(2, each=("staging",))
@pytest.mark.parametrize("program", [MANY, PROFILES, THREADS], ids=["many", "profiles", "threads"])
@pytest.mark.parametrize("staging", ["0", "1"], ids=["in place", "staged"])
def test_calls_share_what_they_need(program, staging):
    python(program, TORCH_VULKAN_STAGING=staging)


def test_packed_weights_alone_are_on_the_device():
    python(WEIGHTS, TORCH_VULKAN_STAGING="1")
