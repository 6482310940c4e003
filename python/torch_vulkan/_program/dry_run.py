"""tv.dry_run: reports what compiling a model would do."""

import contextlib
import io
import logging
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from .._aot import exporting, graph_import
from .._base.errors import UnsupportedError
from .._base.inputs import Arguments, Input, is_leaf
from .._base.settings import Settings
from .._device.device_list import Device
from .._dry_run import script
from .._dry_run.advice import export_reason
from .._dry_run.report import Report
from .._dry_run.sessions import Session, Watch
from .._dynamo import backend
from .._native import C
from .._onnx import dry as onnx_files
from .._torch.captures import Breaks, capture_of

aten = torch.ops.aten


def dry_run(model: nn.Module | ExportedProgram | torch.jit.ScriptModule | Callable, inputs=None,
            target=None, *, kwarg_inputs=None, **settings) -> Report:
    """Reports what torch.compile(model, backend="vulkan") would do with a model: which parts become
    engines, what stays with PyTorch, and why. Builds nothing and needs neither a device nor a
    driver.

    Dynamo captures the model, which runs once, natively, on the inputs: `tv.Input`s are replaced by
    random numbers, or zeros for integer types. Gradients are computed only in training mode.
    Buffers and the state of random numbers are restored afterwards. If inputs have ranges, a second
    call with other sizes shows what is traced again. Functions that torch.compile made before are
    recompiled at their next call.

    Args:
        model: a module, a function of tensors, an ExportedProgram, or a TorchScript module. The
            latter is also run once; each stretch of its code without control flow is a graph of the
            report. Or an ONNX model: a path, the bytes of a file, or an onnx.ModelProto; nothing of
            it runs, and what is native is ONNX Runtime's. Or the path of a graph file (.vkg).
        inputs: as for tv.compile; of a file as for tv.onnx.compile.
        target: the device to plan for: one of tv.devices(), its index or part of its name; or a
            device profile (tv.devices()[0].profile()), as text or as the name of a .json file.
            None: a mid-range discrete GPU.
        kwarg_inputs: inputs passed by keyword, beside a list of inputs.
        settings: docs/settings.md.

    Returns:
        The report: print it, or use its `coverage`, `to_text()`, `to_json()` and `to_html()`.

    Raises:
        ValueError: an invalid setting, input or target.
        DeviceError: `target` names a device that does not exist.
    """
    checked = Settings.from_options(settings, taken_by=dry_run)
    chosen = checked.device if target is None else target
    session = Session(checked.replaced(dryrun=True), profile_of(chosen))
    findings = session.findings
    findings.model = getattr(model, "__name__", type(model).__name__)
    findings.target = session.profile.name
    if graph_import.is_graph_path(model):
        graph_import.describe(model, inputs, session)
    elif onnx_files.is_model(model):
        onnx_files.describe(model, inputs, session)
    elif isinstance(model, ExportedProgram):
        _of_exported(model, inputs, kwarg_inputs, session)
    elif isinstance(model, torch.jit.ScriptModule):
        arguments = Arguments.of(inputs if inputs is not None else [], kwarg_inputs)
        script.describe(model, arguments, checked, session)
        findings.model = model.original_name
        findings.exportable = True
    elif not callable(model):
        raise ValueError(f"tv.dry_run: got {type(model).__name__}, want a module, a function or an "
                         "ExportedProgram")
    else:
        arguments = Arguments.of(inputs if inputs is not None else [], kwarg_inputs)
        _of_calls(model, arguments, session)
        findings.exportable, findings.export_reason = _exportable(model, arguments)
    report = Report.of(findings)
    if isinstance(checked.dryrun, str):
        report.save(checked.dryrun)
    return report


def profile_of(target):
    """The device profile for what users call a target."""
    if target is None:
        return C.DeviceProfile.builtin_default()
    if isinstance(target, C.DeviceProfile):
        return target
    if isinstance(target, Device):
        return C.DeviceProfile.from_json(target.profile())
    if isinstance(target, int) and not isinstance(target, bool):
        return C.device_profile(str(target))
    if not isinstance(target, (str, os.PathLike)):
        raise ValueError(f"target: got {type(target).__name__}, want a device, its index or name, "
                         "or a profile")
    text = os.fspath(target)
    if text.lstrip().startswith("{"):
        return C.DeviceProfile.from_json(text)
    if text.endswith(".json") or os.path.isfile(text):
        return C.DeviceProfile.from_json(Path(text).read_text(encoding="utf-8"))
    return C.device_profile(text)


def _of_exported(program: ExportedProgram, inputs, kwarg_inputs, session: Session) -> None:
    arguments = Arguments.of(inputs or [], kwarg_inputs) if inputs or kwarg_inputs else None
    source, program = program, exporting.decompose(program)
    signature = exporting.signature_of(program, arguments.leaves() if arguments else None)
    exporting.compile_exported(program, signature, session.settings, source, watch=Watch(session))
    session.findings.exportable = True


def _of_calls(model, arguments: Arguments, session: Session) -> None:
    def collect(module, example_inputs):
        watch = Watch(session, capture_of(module))
        aot = backend.through_aot(session.settings, watch)
        return backend.compile_captured(aot, module, example_inputs, session.settings, watch)

    torch._dynamo.reset()
    breaks = Breaks()
    try:
        with _unchanged(model):
            fast = torch.compile(model, backend=collect)
            for args, kwargs in _calls(arguments, _device_of(model)):
                _call(model, fast, args, kwargs)
        session.findings.breaks = breaks.found()
    finally:
        torch._dynamo.reset()


def _device_of(model):
    tensors = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    return next((tensor.device for tensor in tensors), "cpu")


def _calls(arguments: Arguments, device):
    """Arguments to call the model with: the usual sizes, then others if there are ranges."""
    def usual(value):
        if not isinstance(value, Input):
            return value
        return _example(value, value.example("meta").shape, device)

    args, kwargs = _filled(arguments, usual)
    leaves = pytree.tree_leaves((args, kwargs))
    ranged = False
    for given, tensor in zip(arguments.leaves(), leaves, strict=True):
        if isinstance(given, Input):
            for d, (low, _, high) in enumerate(given.dims):
                if low != high:
                    torch._dynamo.maybe_mark_dynamic(tensor, d)
                    ranged = True
    yield args, kwargs
    if not ranged:
        return

    def other(value):
        return _with_other_sizes(value, device) if isinstance(value, Input) else value

    yield _filled(arguments, other)


def _filled(arguments: Arguments, example):
    return pytree.tree_map(example, (arguments.args, arguments.kwargs), is_leaf=is_leaf)


def _example(given: Input, sizes, device) -> torch.Tensor:
    """Numbers that models can compute with: no matrix is singular, every index is valid."""
    if not given.dtype.is_floating_point:
        return torch.zeros(sizes, dtype=given.dtype, device=device)
    generator = torch.Generator().manual_seed(0)
    return torch.randn(sizes, generator=generator).to(device, given.dtype)


def _with_other_sizes(given: Input, device) -> torch.Tensor:
    """Sizes other than 1, for which torch.compile always traces again."""
    sizes = []
    for low, usual, high in given.dims:
        least = max(low, min(2, high))
        sizes.append(usual if low == high else
                     least if least != max(usual, min(2, high)) else min(least + 1, high))
    return _example(given, sizes, device)


def _call(model, fast, args, kwargs) -> None:
    if not getattr(model, "training", False):
        with torch.no_grad():
            fast(*args, **kwargs)
        return
    results = [value for value in pytree.tree_leaves(fast(*args, **kwargs))
               if isinstance(value, torch.Tensor) and value.requires_grad]
    wanted = [p for p in model.parameters() if p.requires_grad]
    if results and wanted:  # captures the backward graphs and leaves .grad alone
        torch.autograd.grad(results, wanted, [torch.ones_like(r) for r in results],
                            allow_unused=True)


@contextlib.contextmanager
def _unchanged(model):
    """Restores what a call changes: buffers, and the state of random numbers."""
    buffers = [*model.buffers()] if isinstance(model, nn.Module) else []
    kept = [buffer.detach().clone() for buffer in buffers]
    with torch.random.fork_rng():
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in zip(buffers, kept, strict=True):
                    if buffer.shape != value.shape:  # an observer's, after its first batch
                        buffer.resize_(value.shape)
                    if not torch.equal(buffer, value):
                        buffer.copy_(value)


class _Function(nn.Module):
    """A function as a module, for torch.export."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *args, **kwargs):
        return self._function(*args, **kwargs)


def _exportable(model, arguments: Arguments) -> tuple[bool, str]:
    module = model if isinstance(model, nn.Module) else _Function(model)
    try:
        with _unchanged(module), _quietly():
            exporting.decompose(exporting.export(module, arguments))
    except UnsupportedError as error:
        return False, export_reason(str(error.__cause__ or error))
    except Exception as error:  # of many types: what decomposing calls raises among them
        return False, export_reason(f"{type(error).__name__}: {error}")
    return True, ""


@contextlib.contextmanager
def _quietly():
    """Suppresses the graph that torch.export prints when it gives up."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)
