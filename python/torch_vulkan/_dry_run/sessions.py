"""Collects what captured graphs would become, where nothing is built."""

import math
import threading
from dataclasses import dataclass, field

import torch
from torch import fx

from .. import compilations
from .._base.settings import Settings
from .._device import device_list
from .._fx import graph_details, report, writes
from .._fx.splitting import split
from .._native import C
from .._torch.captures import Capture, capture_of
from ..compilations import Compilation
from .report import Findings, Graph, Report


def described(settings: Settings) -> Settings:
    """The settings under which graphs are described: for those that build nothing because no block
    is large enough, with the default size."""
    if not math.isinf(settings.min_block_size):
        return settings
    return settings.replaced(min_block_size=Settings.min_block_size, dryrun=True)


@dataclass
class Session:
    """The graphs of one report.

    Attributes:
        settings: of the compilation.
        profile: of the device to partition for; None: the one that a compilation would use, the
            built-in default where there is none.
        findings: what was found so far.
    """

    settings: Settings
    profile: object = None
    findings: Findings = field(init=False)

    def __post_init__(self):
        self.findings = Findings("model", "", described(self.settings))

    def profile_for(self, tensors_on):
        """The device profile, and its name for the report."""
        profile = self.profile or _profile(self.settings, tensors_on)
        self.findings.target = profile.name
        return profile

    def add(self, graph: Graph) -> None:
        """Called once for each captured graph, in the thread that compiles it."""
        self.findings.graphs.append(graph)

    def refuse(self, message: str) -> None:
        """What require_full_compilation says when a graph does not fit into engines."""


class Printed(Session):
    """Of torch.compile(dryrun=True): each graph is printed when it is captured."""

    def add(self, graph: Graph) -> None:
        super().add(graph)
        _say_exportable(self.findings)
        print(Report.of(self.findings).to_text(), flush=True)
        self.findings.graphs.clear()

    def refuse(self, message: str) -> None:
        raise ValueError(message)


class Written(Session):
    """Of torch.compile(dryrun="file"): the file holds all graphs so far that name it."""

    def add(self, graph: Graph) -> None:
        with _lock:
            super().add(graph)
            _say_exportable(self.findings)
            Report.of(self.findings).save(self.settings.dryrun)

    def refuse(self, message: str) -> None:
        raise ValueError(message)


_lock = threading.Lock()
_written: dict[tuple, Written] = {}


def session_for(settings: Settings) -> Session:
    """The session of a compilation whose settings say that nothing is built."""
    if not isinstance(settings.dryrun, str):
        return Printed(settings)
    with _lock:
        return _written.setdefault((settings.dryrun, settings), Written(settings))


def _say_exportable(findings: Findings) -> None:
    breaks = [g.capture.graph_break for g in findings.graphs
              if g.capture and g.capture.graph_break]
    if breaks:
        findings.exportable = False
        findings.export_reason = "torch.export captures whole models, and this one has graph breaks"
    else:
        findings.exportable = None
        findings.export_reason = "tv.dry_run(model, inputs) tries it"


@dataclass
class Watch:
    """A session, and where the graph comes from that is compiled now."""

    session: Session
    capture: Capture | None = None

    @classmethod
    def of(cls, module: fx.GraphModule, settings: Settings) -> "Watch | None":
        """For a graph that Dynamo hands over; None if engines are built."""
        if not settings.builds_nothing:
            return None
        return cls(session_for(settings), capture_of(module))


def describe(module: fx.GraphModule, kind: str, settings: Settings, weights: set[str], tensors_on,
             watch: Watch | None, written: list[str]) -> None:
    """Partitions a prepared graph, and tells the session what would be built.

    Args:
        written: the inputs that the graph's last results are written over.

    Raises:
        ValueError: require_full_compilation is set and something stays native, in torch.compile.
    """
    session = watch.session if watch else session_for(settings)
    settings = described(settings)
    profile = session.profile_for(tensors_on)
    parts = split(module, weights, settings, profile)
    parts.details.data["writes"] = writes.described(
        module, kind, written, weights, settings, profile)
    compilations.record(Compilation(kind, parts.compute_nodes, 0, [], parts.native))
    session.add(Graph(kind, parts.details, watch and watch.capture))
    if settings.require_full_compilation and not parts.plan.is_whole:
        session.refuse(report.in_the_way(parts))


def describe_native(nodes: list[fx.Node], records, reason: str, settings: Settings,
                    watch: Watch | None) -> None:
    """Tells the session of a graph that PyTorch runs as a whole. Raises as describe does."""
    session = watch.session if watch else session_for(settings)
    session.profile_for(torch.device("cpu"))
    session.add(Graph("inference", graph_details.describe_native(nodes, records),
                      watch and watch.capture))
    if settings.require_full_compilation:
        session.refuse(f"require_full_compilation: {reason}")


def _profile(settings: Settings, tensors_on):
    try:
        return C.device_profile(device_list.spec_for(settings.device, tensors_on))
    except (C.DeviceError, torch.OutOfMemoryError):
        return C.DeviceProfile.builtin_default()
