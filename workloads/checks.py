"""Networks against eager: errors, coverage, engines, gradients."""

import torch

from torch_vulkan import compilations
from torch_vulkan._engines.engine import split_vke
from torch_vulkan._fx import engine_call
from torch_vulkan._native import C

from workloads.switches import Switches, nearest

FP32_ERROR, FP32_SHARE_OF_CHANGE, FP16_ERROR, GRADIENT_ERROR = 1e-4, 1e-2, 1e-2, 1e-3
MIN_COVERAGE = 0.99


def tensors(inputs, device, dtype):
    """Inputs on the device, floating ones in dtype."""
    return {k: v.to(device, dtype if v.is_floating_point() else None) for k, v in inputs.items()}


def most(tensors):
    """The largest |element| of all; NaN where one is, which Python's max may lose."""
    return torch.stack([t.abs().max() for t in tensors]).max()


def largest(error, reference):
    """max |error| / max |reference|."""
    return (error.abs().max() / reference.abs().max()).item()


def summary(records):
    """Engines, dispatches, coverage and native operators of the compiled graphs."""
    covered = sum(r.covered_nodes for r in records)
    total = sum(r.compute_nodes for r in records)
    engines = [e for r in records for e in r.engines]
    return {
        "engines": len(engines),
        "dispatches": sum(e.dispatches for e in engines),
        "build_s": round(sum(e.build_s for e in engines), 1),
        "coverage": covered / total if total else 1.0,
        "native": sorted({f"{n.op}: {n.reason}" for r in records for n in r.native}),
    }


def check_inference(network, batch, reduced, device, dtype_name):
    """Largest errors of one network against eager in float64 on the CPU, with the same weights and
    inputs: for 16-bit dtypes those that were rounded."""
    dtype = getattr(torch, dtype_name)
    model = network.make(reduced).to(dtype)
    first, second = (tensors(network.inputs(batch, reduced, seed), "cpu", dtype) for seed in (0, 1))
    compilations.clear()
    with torch.no_grad():
        double = model.double()
        reference = double(**tensors(first, "cpu", torch.float64))[0]
        change = (double(**tensors(second, "cpu", torch.float64))[0] - reference).abs().max()
        model = model.to(device, dtype)  # exactly the weights from before double()
        fast = torch.compile(model, backend="vulkan")
        ours = fast(**tensors(first, device, dtype))[0].cpu().double()
    row = summary(compilations.compilations())
    row["error"] = largest(ours - reference, reference)
    row["share_of_change"] = ((ours - reference).abs().max() / change).item()
    limit = FP32_ERROR if dtype_name == "float32" else FP16_ERROR
    row["ok"] = row["error"] <= limit and row["coverage"] >= MIN_COVERAGE
    row["ok"] &= row["engines"] <= network.max_engines
    if dtype_name == "float32":
        row["ok"] &= row["share_of_change"] <= FP32_SHARE_OF_CHANGE
    return row


def engine_digests(network, batch, reduced, device, dtype_name, gradients):
    """SHA-256 of each engine that a network becomes, without names and weights, in order: what no
    change of names or folders may change. Nothing is timed, so rules choose the kernels."""
    dtype = getattr(torch, dtype_name)
    torch.manual_seed(0)
    model = network.make(reduced).to(device, dtype)
    inputs = tensors(network.inputs(batch, reduced, 0), device, dtype)
    fast = torch.compile(model, backend="vulkan", options={
        "optimization_level": 0, "cache_built_engines": False, "reuse_cached_engines": False})
    calls = []
    with torch.set_grad_enabled(gradients), engine_call.collected(calls):
        out = fast(**inputs)[0]
        if gradients:
            out.sum().backward()
    return {"digests": [C.vke_digest(part) for call in calls for part in split_vke(call.vke())]}


def gradients_of(module, call, inputs):
    """The first output, and the parameters' gradients in one fixed random direction of it (the
    plain sum of normalised outputs has none)."""
    module.zero_grad()
    out = call(**inputs)[0]
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    (out * weights.to(out.device, out.dtype)).sum().backward()
    found = [p.grad.cpu().double() for p in module.parameters() if p.grad is not None]
    return out.detach().cpu().double(), found


def gradient_error(got, wanted):
    """The largest error of a gradient, relative to the largest of its parameter; NaN where one
    is."""
    scale = most(wanted)
    return most([(a - b).abs().max() / torch.maximum(b.abs().max(), 1e-3 * scale)
                 for a, b in zip(got, wanted, strict=True)]).item()


def check_gradients(network, batch, reduced, device):
    """Largest errors of outputs and gradients through the training path, float32.

    The reference is eager in float64 on the CPU; it may take either side of the switches that
    float32 cannot tell an activation from (switches.py): `switches` of them were moved for ours;
    `unmoved_error` is its error with none moved.
    Eager's own error in float32 on the CPU, found in the same way, stands beside it.
    """
    model = network.make(reduced)
    given = network.inputs(batch, reduced, 0)
    _, eager = gradients_of(model, model, tensors(given, "cpu", torch.float32))
    compilations.clear()
    model = model.to(device)
    fast = torch.compile(model, backend="vulkan")
    ours, got = gradients_of(model, fast, tensors(given, device, torch.float32))
    row = summary(compilations.compilations())

    model = model.to("cpu", torch.float64)
    inputs = tensors(given, "cpu", torch.float64)
    with Switches(model) as switches:
        reference, wanted = gradients_of(model, model, inputs)
        row["unmoved_error"] = gradient_error(got, wanted)
        for key, found in (("eager_", eager), ("", got)):
            row[key + "gradient_error"], row[key + "switches"] = nearest(
                lambda g, found=found: gradient_error(found, g), wanted, switches,
                lambda: gradients_of(model, model, inputs)[1], GRADIENT_ERROR)
    row["error"] = largest(ours - reference, reference)
    row["ok"] = row["error"] <= FP32_ERROR and row["gradient_error"] <= GRADIENT_ERROR
    return row
