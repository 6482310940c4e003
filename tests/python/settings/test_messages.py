"""What somebody is told who writes an argument otherwise than it is wanted."""

import json
import warnings

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from helpers import one_node_file

STRICT = {"min_block_size": 1, "optimization_level": 0}


class Net(nn.Module):
    def forward(self, x):
        return torch.tanh(x) + 1


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory):
    return one_node_file(tmp_path_factory.mktemp("messages") / "tanh.onnx", "Tanh")


def test_a_program_without_engines_says_why():
    with pytest.warns(UserWarning, match="PyTorch runs all of it:(.|\n)*fewer than "
                      "min_block_size(.|\n)*tv.dry_run"):
        program = tv.compile(Net(), [torch.randn(2, 4)], min_block_size=5)
    assert not tv.engines(program)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        tv.compile(Net(), [torch.randn(2, 4)], **STRICT)


@pytest.mark.parametrize("shape", [(2, 4), [2, 4]])
def test_a_shape_in_the_place_of_an_input(shape):
    with pytest.raises(tv.UnsupportedError,
                       match=r"Input 0 is .*: for a tensor of that shape write tv.Input\(\(2, 4\)"):
        tv.compile(nn.Linear(4, 3), [shape])


@pytest.mark.parametrize("name, meant", [("profile", "profiles"), ("kwargs_inputs", "kwarg_inputs"),
                                         ("min_block_sise", "min_block_size")])
def test_keywords_of_compile(name, meant):
    with pytest.raises(ValueError, match=f"unknown setting '{name}'; did you mean '{meant}'"):
        tv.compile(Net(), [torch.randn(2, 4)], **{name: []})


def test_keywords_of_others_that_take_settings(tmp_path):
    with pytest.raises(ValueError, match="unknown setting 'targett'; did you mean 'target'"):
        tv.dry_run(Net(), [torch.randn(2, 4)], targett=0)
    with pytest.raises(ValueError, match="unknown setting 'weight'; did you mean 'weights'"):
        tv.build_graph(tmp_path / "net.vkg", weight="w")


@pytest.mark.parametrize("name, meant", [("falback", "fallback"), ("simplfy", "simplify"),
                                         ("constant", "constants"),
                                         ("max_shape_value", "max_shape_values")])
def test_keywords_of_onnx(name, meant, onnx_file):
    with pytest.raises(ValueError, match=f"unknown setting '{name}'; did you mean '{meant}'"):
        tv.onnx.compile(onnx_file, **{name: None})


def test_the_range_of_a_profile_names_its_input():
    with pytest.raises(ValueError, match="Profile: 'b': Input: dimension 0: got min_shape 1, opt"):
        tv.Profile(a=((1, 4), (2, 4), (3, 4)), b=((1, 4), (5, 4), (3, 4)))


def test_a_budget_may_be_none():
    program = tv.compile(Net(), [torch.randn(2, 4)], weight_budget=None, tuning_seconds=None,
                         **STRICT)
    assert tv.engines(program)


def test_dtypes_of_a_files_inputs(onnx_file):
    with pytest.raises(ValueError, match="'x': got dtype torch.float16, want torch.float32"):
        tv.onnx.compile(onnx_file, {"x": tv.Input((1, 4), dtype=torch.float16)})


def test_files_and_inputs_that_are_not_there(onnx_file, tmp_path):
    with pytest.raises(FileNotFoundError, match="nope.onnx"):
        tv.onnx.compile(tmp_path / "nope.onnx")
    with pytest.raises(FileNotFoundError, match="nope.onnx"):
        tv.dry_run(tmp_path / "nope.onnx")
    with pytest.raises(ValueError, match='no input "z"; it has x'):
        tv.onnx.compile(onnx_file, {"z": tv.Input((1, 4))}, fallback="none")


def test_folders_that_are_not_there(tmp_path):
    program = tv.compile(Net(), [torch.randn(2, 4)], **STRICT)
    path = tmp_path / "missing" / "net.vke"
    with pytest.raises(FileNotFoundError, match="there is no folder .*missing: make it first"):
        tv.engines(program)[0].save(path)
    assert not path.parent.exists()


def test_the_profile_of_a_dynamic_engine_is_json():
    program = tv.compile(Net(), [tv.Input(min_shape=(1, 4), opt_shape=(2, 4), max_shape=(8, 4))],
                         **STRICT)
    layers = tv.engines(program)[0].profile([torch.randn(3, 4)], runs=1)
    assert json.loads(json.dumps(layers))[0]["time_us"] >= 0


def test_precision_in_a_configuration():
    pytest.importorskip("pydantic")
    with pytest.raises(ValueError, match="unknown key 'precision'; write fp16: true"):
        tv.Config(precision="float16")
