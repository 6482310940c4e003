"""ResNet-50 through torch.compile(model, backend="vulkan"): `make demo`."""

import statistics
import time
import warnings

import torch
from transformers import ResNetConfig, ResNetForImageClassification

import torch_vulkan as tv
from torch_vulkan import compilations

RUNS = 10


def median_ms(call):
    """Median latency of RUNS calls, after one warm-up, in milliseconds."""
    call()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main():
    warnings.filterwarnings("ignore", module="torch")
    device = tv.devices()[0]
    print(f"device      {device.name} ({device.driver})")

    torch.manual_seed(0)
    model = ResNetForImageClassification(ResNetConfig(num_labels=1000)).eval()
    for module in model.modules():  # weights that keep the signal alive, statistics that fold
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.normal_(module.weight, 0, 1.2 * module.weight[0].numel() ** -0.5)
        elif isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    image = torch.randn(1, 3, 224, 224)
    fast = torch.compile(model, backend="vulkan", options={"progress": True})

    with torch.no_grad():
        start = time.perf_counter()
        ours = fast(image).logits
        print(f"first call  {time.perf_counter() - start:.1f} s, engine build included")
        reference = model(image).logits
        eager_ms = median_ms(lambda: model(image))
        ours_ms = median_ms(lambda: fast(image))

    graphs = compilations.compilations()
    engines = [engine for graph in graphs for engine in graph.engines]
    covered = sum(graph.covered_nodes for graph in graphs)
    total = sum(graph.compute_nodes for graph in graphs)
    print(f"engines     {len(engines)}, {sum(e.dispatches for e in engines)} dispatches, "
          f"{covered} of {total} compute nodes ({covered / total:.1%})")
    for graph in graphs:
        for node in graph.native:
            print(f"native      {node.op}: {node.reason}")

    error = (ours - reference).abs().max() / reference.abs().max()
    best = [set(logits.topk(5).indices[0].tolist()) for logits in (ours, reference)]
    agreement = len(best[0] & best[1])
    print(f"error       {error:.1e} of the largest output; top-5 agree in {agreement} of 5")
    print(f"latency     {ours_ms:.1f} ms, eager {eager_ms:.1f} ms on the CPU "
          f"(median of {RUNS}, batch 1)")


if __name__ == "__main__":
    main()
