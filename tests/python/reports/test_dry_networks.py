"""The dry run of networks announces the engines that a compilation then builds."""

import json

import jsonschema
import pytest
import torch

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._dry_run.report import SCHEMA

from marks import slow_but, turns
from workloads.networks import NETWORKS

NAMES = ("Whisper", "ConvNeXt", "Llama", "T5", "Swin", "DETR", "SegFormer", "UNet")


@turns(2)
@pytest.mark.parametrize("name", slow_but(NAMES[:2], NAMES))
def test_engines_are_those_of_a_real_compile(name, device):
    inputs = NETWORKS[name].inputs(1, True, 0)
    settings = {} if name != "Whisper" else {"torch_executed_ops": ("aten::gelu",)}
    report = tv.dry_run(NETWORKS[name].make(True), inputs, device, **settings)
    jsonschema.validate(report.data, json.loads(SCHEMA.read_text()))
    compilations.clear()
    with torch.no_grad():  # a model that ran already may be captured otherwise
        torch.compile(NETWORKS[name].make(True), backend="vulkan", options=settings)(**inputs)
    records = compilations.compilations()
    built = [(e.name, e.compute_nodes) for r in records for e in r.engines]
    assert sorted((e["name"], e["compute_nodes"]) for e in report.engines) == sorted(built)
    assert report.data["covered_nodes"] == sum(r.covered_nodes for r in records)
    assert len(built) > 1 if settings else report.coverage == 1
    assert report.data["exportable"] is True
