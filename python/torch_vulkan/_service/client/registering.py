"""tv.register: gives a model to the compile service, after training or whenever it has changed."""

import contextlib
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from ..._aot.graph_export import export_graph
from ..._base.errors import UnsupportedError
from ..._engines.engine import Engine
from ..errors import ServiceError, package
from .client import Client
from .fetch import model_digest


def register(model, name: str, *, devices: Sequence[str] | None = None,
             inputs: torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor]
             | None = None,
             dynamic_shapes=None, options: Mapping[str, object] | None = None,
             source: str | os.PathLike | None = None, level: int = 0,
             weights: str | os.PathLike | None = None, job_id: str | None = None,
             notify: str | None = None, wait: bool = False, url: str | None = None,
             api_key: str | None = None) -> dict:
    """Compiles a model for devices by a compile service, or publishes an engine that was compiled
    here, so that `tv.AutoModel.from_pretrained(name)` finds it on every machine.

    Args:
        model: a module, which is exported here (the service reads no pickles): as a graph file
            (tv.export_graph), or, where that refuses it, as ONNX (torch.onnx.export); the path or
            bytes of an ONNX file or a graph file; or an engine: a tv.Engine or the path of a .vke
            file.
        name: under which AutoModel finds it ("team/net").
        devices: names, as `Client.devices` gives them; None: all.
        inputs: what a module is called with: a tensor, or several in order or by name.
        dynamic_shapes: of these inputs, as torch.export has them.
        options: how to build (Client.submit); of an engine: how it was built, if that is known.
        source: of an engine: the file of the model that it was compiled from.
        level: of an engine: the optimization_level at which it was tuned; 0: it was not.
        weights, job_id, notify: as for Client.submit.
        wait: until the job has ended.
        url, api_key: of the service (tv.service.Client).

    Returns:
        The job, or the artefact of an engine.

    Raises:
        ServiceError: the service refuses, or cannot be reached.
        UnsupportedError: a module can be neither a graph file nor an ONNX file.
    """
    with Client(url, api_key) as client:
        is_path = isinstance(model, (str, os.PathLike))
        if isinstance(model, Engine) or (is_path and Path(model).suffix == ".vke"):
            return _published(client, model, name, source, level, options)
        if devices is None:
            devices = [device["name"] for device in client.devices()]
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(model, torch.nn.Module):
                model = exported(model, inputs, dynamic_shapes, Path(folder))
            job = client.submit(model, devices, name=name, job_id=job_id, options=options,
                                notify=notify, weights=weights)
        return client.wait(job["id"]) if wait else job


def _published(client: Client, engine, name: str, source, level: int, options) -> dict:
    digest = model_digest(source) if source is not None else None
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(engine, Engine):
            path = Path(folder) / "engine.vke"
            engine.save(path)
        else:
            path = Path(engine)
        return client.publish(path, name, model_digest=digest, level=level, options=options)


def exported(module: torch.nn.Module, inputs, dynamic_shapes, folder: Path) -> Path:
    """The module in the folder, as it is in eval mode: as a graph file, else as an ONNX file, which
    may be of other operators."""
    args, kwargs = _call(module, inputs)
    with _evaluating(module):
        try:
            path = folder / "net.vkg"
            export_graph(torch.export.export(module, args, kwargs, strict=False,
                                             dynamic_shapes=dynamic_shapes), path)
            return path
        except Exception as error:  # of many types: what the module's own code raises among them
            try:
                path = as_onnx(module, inputs, dynamic_shapes, folder)
            except Exception as other:
                raise UnsupportedError(f"{error}\nAs ONNX: {other}") from error
            warnings.warn(f"torch_vulkan: the module is sent as ONNX, as it is no graph file: "
                          f"{error}", stacklevel=3)
            return path


def as_onnx(module: torch.nn.Module, inputs, dynamic_shapes, folder: Path) -> Path:
    """The module as an ONNX file; weights near or beyond what protobuf holds (2 GB) are in a file
    beside it."""
    package("onnxscript")
    args, kwargs = _call(module, inputs)
    with _evaluating(module):
        program = torch.onnx.export(module, args, kwargs=kwargs, dynamo=True, verbose=False,
                                    dynamic_shapes=dynamic_shapes)
    path = folder / "net.onnx"
    program.save(path)
    return path


def _call(module: torch.nn.Module, inputs) -> tuple[tuple, dict | None]:
    """(arguments, keyword arguments) on the module's device."""
    if inputs is None:
        raise ValueError("inputs: a module is exported with what it is called with")
    if isinstance(inputs, torch.Tensor):  # not its rows
        inputs = (inputs,)
    inputs = pytree.tree_map_only(torch.Tensor, lambda t: t.to(_device(module)), inputs)
    return ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), None)


@contextlib.contextmanager
def _evaluating(module: torch.nn.Module):
    """In eval mode, without gradients; afterwards the modes are as before."""
    modes = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for each, training in modes:
            each.training = training


def _device(module: torch.nn.Module) -> torch.device:
    return next((p.device for p in module.parameters()), torch.device("cpu"))


def register_callback(name: str, **given):
    """A callback for transformers' Trainer that registers the model when training has ended; a
    service that refuses or is away is a warning.

    Args:
        name, given: those of `register`; `inputs` are needed.
    """
    from transformers import TrainerCallback

    class Register(TrainerCallback):
        """`job`: what `register` gave."""

        job = None

        def on_train_end(self, args, state, control, model=None, **_kwargs):
            if not state.is_world_process_zero:
                return
            try:
                self.job = register(model, name, **given)
            except ServiceError as error:
                warnings.warn(f"torch_vulkan: {name} was not registered: {error}", stacklevel=2)

    return Register()
