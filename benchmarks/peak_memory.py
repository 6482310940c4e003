"""The most memory that a call of a network holds: torch's tensors, and what engines have on their
device.

Tensors are counted by torch's allocator on CUDA, and on the CPU by what torch's profiler sees of
it: what a library takes for itself beside them is not counted. Parameters, buffers and inputs count
once in each way, where the caller keeps them. What a way keeps between its calls beside those is
counted for engines alone: pools of CUDA graphs, and weights that inductor packed, are not.
"""

ENGINES = ("arenas", "weights", "staging", "shared", "other")


def peak_bytes(call, given, device, runs_engines):
    """Bytes at the peak of `call`, which was called before: "all"; of these, "given"; and what
    engines hold, as "engines" and by what it is for.

    Args:
        call: runs the network once.
        given: the parameters, buffers and inputs.
        device: where they live, "cpu" or "cuda".
        runs_engines: whether the call runs engines, which are the only ones of the process.
    """
    import torch_vulkan as tv

    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
                for tensor in given}
    kept = sum(storages.values())
    tv.reset_peak_memory_stats()
    grown = _growth_on_cuda(call) if device == "cuda" else _growth_on_cpu(call)
    peak = {"all": kept + grown, "given": kept}
    if runs_engines:
        stats = tv.memory_stats()
        peak["all"] += stats["peak"]
        peak["engines"] = stats["peak"]
        peak |= {name: stats[name] for name in ENGINES}
    return peak


def text(peaks):
    """MiB by way, and engines' own by what it is for."""
    cells = [f"{way} {peak['all'] / 2**20:.0f}" for way, peak in peaks.items()]
    parts = [f"{name} {peaks['vulkan'][name] / 2**20:.0f}" for name in ENGINES
             if peaks.get("vulkan", {}).get(name, 0) >= 2**19]
    given = next(iter(peaks.values()))["given"] / 2**20
    return (f"peak MiB: {'  '.join(cells)}  (given {given:.0f}"
            f"{'; engines: ' + ', '.join(parts) if parts else ''})")


def _growth_on_cuda(call):
    import torch

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _growth_on_cpu(call):
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as profile:
        call()
    events = [event for event in profile.profiler.kineto_results.events()
              if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most
