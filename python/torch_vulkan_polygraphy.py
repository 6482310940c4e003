"""polygraphy's plugin: `polygraphy run net.onnx --onnxrt --vulkan`. It is beside the package, so
that polygraphy, which loads its plugins whenever it runs, loads torch only where --vulkan is."""

import time
from collections import OrderedDict

from polygraphy import util
from polygraphy.backend.base import BaseRunner
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType
from polygraphy.logger import G_LOGGER
from polygraphy.tools.args import ModelArgs, OnnxLoadArgs
from polygraphy.tools.args import util as args_util
from polygraphy.tools.args.base import BaseRunnerArgs
from polygraphy.tools.script import make_invocable


class VulkanRunner(BaseRunner):
    """Runs an ONNX model in Vulkan engines, and natively what no engine takes.

    Args:
        model: a path, bytes, a ModelProto, or a callable that returns one of them.
        config: the path of a YAML file as tv.Config reads it.
        options: name → value of fields of tv.Config, over those of the file.
    """

    def __init__(self, model, config: str | None = None, options: dict | None = None,
                 name: str | None = None):
        super().__init__(name=name, prefix="vulkan-runner")
        self._model, self._config, self._options = model, config, options or {}

    def activate_impl(self):
        import torch_vulkan as tv

        given = tv.Config.from_yaml(self._config).model_dump(exclude_unset=True) if (
            self._config) else {}
        config = tv.Config(**{**given, **self._options})
        model, _ = util.invoke_if_callable(self._model)
        inputs = config.inputs()
        self.session = tv.onnx.compile(model, inputs or None, **config.settings())
        native = self.session.native
        G_LOGGER.info(f"{self.name:35} | {len(self.session.engines)} engines; {len(native)} nodes "
                      "run natively")
        for node, _, reason in native:
            G_LOGGER.verbose(f"{self.name:35} | {node} runs natively: {reason}")

    def get_input_metadata_impl(self):
        metadata = TensorMetadata()
        for node in self.session.get_inputs():
            metadata.add(node.name, dtype=DataType.from_dtype(node.type, "onnxruntime"),
                         shape=node.shape)
        return metadata

    def infer_impl(self, feed_dict):
        use_torch = any(util.array.is_torch(value) for value in feed_dict.values())
        feed = {name: util.array.to_numpy(value) for name, value in feed_dict.items()}
        start = time.time()
        results = self.session.run(None, feed)
        self.inference_time = time.time() - start
        return OrderedDict(
            (node.name, util.array.to_torch(result) if use_torch else result)
            for node, result in zip(self.session.get_outputs(), results, strict=True))

    def deactivate_impl(self):
        del self.session


class VulkanRunnerArgs(BaseRunnerArgs):
    """
    Vulkan Inference: running inference with torch_vulkan.

    Depends on:

        - ModelArgs
        - OnnxLoadArgs
    """

    def get_name_opt_impl(self):
        return "Vulkan", "vulkan"

    def add_parser_args_impl(self):
        self.group.add_argument(
            "--vulkan-config", default=None,
            help="A YAML file of settings, as tv.Config and vkexec --config read it")
        self.group.add_argument(
            "--vulkan-options", nargs="+", default=None, metavar="NAME=VALUE",
            help="Fields of tv.Config, as fp16=true or optimization_level=0; they come before the "
                 "file's")

    def parse_impl(self, args):
        """Sets `config` (str | None) and `options` (dict)."""
        self.config = args_util.get(args, "vulkan_config")
        self.options = {}
        for text in args_util.get(args, "vulkan_options") or ():
            name, equals, value = text.partition("=")
            if not equals:
                G_LOGGER.critical(f"--vulkan-options: got {text!r}, want NAME=VALUE")
            self.options[name] = _value(value)
        if self.options or self.config is not None:
            _check(self.config, self.options)

    def add_to_script_impl(self, script):
        loads = self.arg_groups[OnnxLoadArgs]
        model = (loads.add_to_script(script, serialize_model=True)
                 if loads.must_use_onnx_loader() else self.arg_groups[ModelArgs].path)
        script.add_import(imports=["VulkanRunner"], frm="torch_vulkan_polygraphy")
        script.add_runner(make_invocable("VulkanRunner", model, config=self.config,
                                         options=self.options or None))


def _check(config: str | None, options: dict) -> None:
    """Ends the program, with the reason, where tv.Config does not take them."""
    import torch_vulkan as tv

    try:
        if config is not None:
            tv.Config.from_yaml(config)
        tv.Config(**options)
    except (OSError, ValueError) as error:
        G_LOGGER.critical(f"--vulkan: {error}")


def _value(text: str):
    import yaml

    return yaml.safe_load(text)


def arguments() -> list:
    """What the entry point polygraphy.run.plugins names."""
    return [VulkanRunnerArgs()]
