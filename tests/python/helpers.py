"""Compares torch.compile(backend="vulkan") with eager."""

import contextlib
import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import torch_vulkan
from torch_vulkan import compilations
from torch_vulkan._torch.compat import TORCH

from workloads.checks import most


def vulkan(function, dynamic=None, **options):
    """`function` compiled, blocks of one node included."""
    return torch.compile(function, backend="vulkan", dynamic=dynamic,
                         options={"min_block_size": 1, **options})


def flat(value):
    """The tensors of a nested result."""
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in flat(item)]
    if isinstance(value, dict):
        return flat([*value.values()])
    return [value]


def assert_same(got, want):
    """Values, dtype, shape and strides, of every tensor; equality of everything else."""
    got, want = flat(got), flat(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert a.dtype == b.dtype and a.shape == b.shape and a.device == b.device
        assert a.stride() == b.stride(), (a.stride(), b.stride())
        torch.testing.assert_close(a, b, equal_nan=True)


# Weights of the networks that no result depends on: a key's bias adds the same to every score of a
# row, and the results do not come through the pooler.
UNREAD = ("key.bias", "pooler.dense.weight", "pooler.dense.bias")


def assert_follows(got, before, want, weight):
    """Results follow the change of a weight that took eager's from `before` to `want`: they are
    nearer to `want` than an eighth of the way, which the old weight's results are not."""
    got, before, want = flat(got), flat(before), flat(want)
    moved = most([a - b for a, b in zip(want, before, strict=True)])
    error = most([a - b for a, b in zip(got, want, strict=True)])
    if weight.endswith(UNREAD):
        assert moved < 1e-6, f"{weight} is read after all"
        torch.testing.assert_close(got, want)
        return
    assert error < moved / 8, f"{weight}: eager moved by {moved:.1e}, the error is {error:.1e}"


def check(function, *args, grad=False, dynamic=None, calls=2, **options):
    """Eager and compiled agree, for results and for what happens to the arguments; returns what
    the backend made of the graphs."""
    compilations.clear()
    fast = vulkan(function, dynamic, **options)
    with torch.set_grad_enabled(grad):
        for _ in range(calls):
            theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
            torch.manual_seed(0)
            want = function(*theirs)
            torch.manual_seed(0)
            got = fast(*ours)
            assert_same(got, want)
            assert_same([*ours], [*theirs])
    return compilations.compilations()


def warns_before(version: tuple[int, int], match: str):
    """Expects a warning of ours of what a PyTorch before `version` gives us no other choice."""
    return pytest.warns(UserWarning, match=match) if TORCH < version else contextlib.nullcontext()


def engines(records):
    """How many engines the records hold."""
    return sum(len(record.engines) for record in records)


def in_threads(work, count: int = 4) -> None:
    """Runs work(0), …, work(count - 1) at the same time; raises what one of them raises."""
    with ThreadPoolExecutor(count) as pool:
        for run in [pool.submit(work, i) for i in range(count)]:
            run.result()


def shared_gpu() -> bool:
    """True where CUDA's first device is a Vulkan device, too."""
    if not torch.cuda.is_available():
        return False
    uuid = str(torch.cuda.get_device_properties(0).uuid).replace("-", "").lower()
    return any(device.uuid.lower() == uuid for device in torch_vulkan.devices())


@contextlib.contextmanager
def exact_products():
    """Eager's float32 products on CUDA as exact as an engine's."""
    matmul, before = torch.backends.cuda.matmul, torch.backends.cuda.matmul.allow_tf32
    # cuDNN's way also where torch.testing has forbidden to set its flags (op_db's tests do).
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        matmul.allow_tf32 = False
        try:
            yield
        finally:
            matmul.allow_tf32 = before


def one_node_file(path, op: str, shapes=((None, 4), (None, 4)), weight=None):
    """Writes an ONNX file of y = op(x), or op(x, weight), of float32; a size of None is dynamic.

    Args:
        shapes: of x and y.
        weight: an array, or None.
    """
    onnx = pytest.importorskip("onnx")
    make = onnx.helper
    x, y = (make.make_tensor_value_info(name, onnx.TensorProto.FLOAT,
                                        ["n" if size is None else size for size in shape])
            for name, shape in zip("xy", shapes, strict=True))
    weights = [] if weight is None else [onnx.numpy_helper.from_array(weight, "w")]
    node = make.make_node(op, ["x", *(w.name for w in weights)], ["y"])
    graph = make.make_graph([node], op, [x], [y], weights)
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=9), path)
    return path
