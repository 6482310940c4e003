"""tv.compile for TorchScript modules: what python/bindings/script.h does, with the package's
settings, records and errors."""

import contextlib
import io
import json
import warnings

import torch

from .. import compilations
from .._base.dumps import debug_directory
from .._base.errors import OUT_OF_MEMORY, UnsupportedError, memory_errors
from .._base.inputs import Arguments
from .._base.settings import Settings
from .._device import cuda_memory, device_list
from .._engines.engine import Engine, built_elsewhere, tensor_bytes
from .._native import LIB, C
from ..compilations import Compilation, EngineRecord, NativeRecord
from .examples import examples

ABOUT = "torch_vulkan_script.json"  # a file that says who wrote the archive
FORMAT = 1
MARK = "torch_vulkan_format"  # an attribute of what was compiled
NO_CACHE = json.dumps({"reuse_cached_engines": False, "cache_built_engines": False})


def compile_module(module: torch.jit.ScriptModule, arguments: Arguments | None,
                   settings: Settings) -> torch.jit.ScriptModule:
    """A ScriptModule of engines and native operators that has the parameters and buffers of
    `module` (the same tensors) and its forward.

    Raises:
        ValueError: bad inputs, a setting that says something else for modules of Python, or
            require_full_compilation is set and something stays native.
        UnsupportedError: the inputs have ranges of shapes, and the module fails at some of them.
        DeviceError: there is no Vulkan device.
    """
    settings = settings.keyed_by([*module.parameters(), *module.buffers()])
    tensors_on = _device_of(module, arguments)
    device = device_list.spec_for(settings.device, tensors_on)
    if tensors_on.type == "cuda":
        cuda_memory.allocate_shareable()
    made, about = _run(module, arguments, settings, device=device, cache=settings.cache_json(),
                       debug_dir=debug_directory(settings))
    native = [NativeRecord(n["op"], n["reason"], n["source"], n["module_path"])
              for n in about["native"]]
    if settings.require_full_compilation and not about["is_whole"]:
        raise ValueError("require_full_compilation: these stay native:\n" + "\n".join(
            f"  {n.op} ({n.source}): {n.reason}" for n in native))
    for failure in about["failures"]:
        warnings.warn(f"torch_vulkan: {failure}", stacklevel=3)
    records = [EngineRecord(e["name"], e["compute_nodes"], getattr(made, e["name"]).dispatches(),
                            e["build_s"]) for e in about["engines"]]
    compilations.record(Compilation("torchscript", about["compute_nodes"], about["covered_nodes"],
                                    records, native))
    return made


def _device_of(module, arguments) -> torch.device:
    """Where the tensors of a module, or else those of its arguments, are."""
    given = arguments.leaves() if arguments else []
    tensors = [*module.parameters(), *module.buffers(),
               *(value for value in given if isinstance(value, torch.Tensor))]
    return next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))


def reports(module: torch.jit.ScriptModule, arguments: Arguments | None, settings: Settings,
            profile: str) -> list[dict]:
    """What compiling would do with each stretch of straight-line code, as
    python/bindings/script/report.h has it. Builds nothing and needs no device. `profile`: of a
    device, as JSON."""
    _, about = _run(module, arguments, settings, dry_run_for=profile)
    return about["reports"]


def _run(module, arguments, settings, *, device="", cache=NO_CACHE, debug_dir="", dry_run_for=""):
    tensors_on = _device_of(module, arguments)
    compiler = settings.compiler_json(debug_dir, on_cuda=tensors_on.type == "cuda")
    options = {
        "settings": compiler, "cache": cache, "device": device,
        "immutable_weights": settings.immutable_weights,
        "pass_through_build_failures": (settings.pass_through_build_failures
                                        or settings.require_full_compilation),
        "dry_run_for": dry_run_for,
    }
    failure = None
    for given in examples(module, arguments, tensors_on):
        chosen = json.dumps(options | {"fitted": given.fitted, "usual": given.usual})
        try:
            with torch.random.fork_rng():
                made, about = _library().compile(module._c, tuple(given.sets), chosen)
        except NotImplementedError as error:  # the module's own, at sizes that do not go together
            if given.fitted == 0:
                raise
            failure = failure or error
            continue
        made._register_attribute(MARK, torch._C.IntType.get(), FORMAT)
        return torch.jit._recursive.wrap_cpp_module(made), json.loads(about)
    raise UnsupportedError(
        "tv.compile: the module does not run at all sizes that were tried between those of "
        f"`inputs`: {failure}\nGive a range to each dimension that may change alone, and the same "
        "range to those that are equal") from failure


def _library():
    """The operators of libtorch_vulkan_script, which is loaded when it is first needed."""
    if not hasattr(torch.ops.torch_vulkan_script, "compile"):
        torch.ops.load_library(str(LIB / "libtorch_vulkan_script.so"))
    return torch.ops.torch_vulkan_script


def save(module: torch.jit.ScriptModule, file) -> None:
    """Writes a compiled module to a file object; its engines name no device of this machine."""
    about = {"format": FORMAT, "torch": torch.__version__}
    with _engines_on(module, ""):
        buffer = io.BytesIO()
        torch.jit.save(module, buffer, _extra_files={ABOUT: json.dumps(about)})
    file.write(buffer.getbuffer())


def load(path, device: int | str | None) -> torch.jit.ScriptModule:
    """Reads what `save` wrote, or torch.jit.save of what had been read from it. Raises ValueError
    if it is damaged, of a later format, or its engines do not run on the device."""
    files = {ABOUT: ""}
    try:
        with memory_errors():
            module = torch.jit.load(path, _extra_files=files)
        version = json.loads(files[ABOUT])["format"] if files[ABOUT] else getattr(module, MARK)
    except OUT_OF_MEMORY:
        raise
    except Exception as error:  # of many types
        raise ValueError(f"{path} cannot be read by torch {torch.__version__}: {error}; copy it "
                         "again, or save the program again") from error
    if version != FORMAT:
        raise ValueError(f"{path} has format version {version}, this torch_vulkan reads version "
                         f"{FORMAT}: upgrade torch_vulkan, or save the program again")
    spec = "" if device is None else str(device)
    engines = [engine for engine, _ in engines_of(module).values()]
    wrong = built_elsewhere(engines, C.device_profile(spec))
    if wrong is not None:
        raise ValueError(f"{path} {wrong}: compile it here")
    if device is not None:
        _put_engines_on(module, spec)
    return module


@contextlib.contextmanager
def _engines_on(module, device: str):
    kept = {name: engine for name, (engine, _) in engines_of(module).items()}
    _put_engines_on(module, device)
    try:
        yield
    finally:
        for name, engine in kept.items():
            setattr(module, name, engine)


def _put_engines_on(module, device: str) -> None:
    for name, (engine, _) in engines_of(module).items():
        if engine.device() != device:
            state = dict(engine.__obj_flatten__())
            moved = torch.classes.torch_vulkan.Engine(
                engine.vke(), device, state["immutable_weights"], state["truncate"])
            moved.set_weight_budget(engine.weight_budget())
            setattr(module, name, moved)


def is_script(module) -> bool:
    """True for a ScriptModule that `compile_module` made, or a copy of one that was loaded, also
    where all of it is native. What C++ compiled is known by its engines."""
    return isinstance(module, torch.jit.ScriptModule) and (
        hasattr(module, MARK) or bool(engines_of(module)))


def engines_of(module: torch.jit.ScriptModule) -> dict[str, tuple]:
    """name → (engine, its weights in its order), of a compiled ScriptModule."""
    found = {}
    for node in module.graph.findAllNodes("torch_vulkan::execute", recurse=True):
        _, weights, engine = node.inputs()
        path = _path(engine)
        found[path] = (_attribute(module, path),
                       [_tensor(module, value) for value in weights.node().inputs()])
    return dict(sorted(found.items(), key=lambda item: int(item[0].rsplit("_", 1)[1])))


def engine_of(name: str, engine, weights) -> Engine:
    """A stand-alone engine with copies of its weights."""
    made = Engine(tensor_bytes(engine.vke()), engine.device() or None,
                  weight_budget=engine.weight_budget())
    made.set_weights([tensor.detach() for tensor in weights])
    return made


def _path(value) -> str:
    """Where a module holds what a graph reads by attributes."""
    names = []
    while value.node().kind() == "prim::GetAttr":
        names.append(value.node().s("name"))
        value = value.node().input()
    return ".".join(reversed(names))


def _attribute(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _tensor(module, value) -> torch.Tensor:
    if value.node().kind() == "aten::_unwrap_optional":
        value = value.node().input()
    return value.toIValue() if value.node().kind() == "prim::Constant" else (
        _attribute(module, _path(value)))
