"""The Python listings of docs/service.md."""

import re
import time

import numpy
import torch

import torch_vulkan as tv
from torch_vulkan._service.jobs import webhooks

from workloads.service_process import ROOT, SECONDS, layers


class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(8, 5)

    def forward(self, x):
        return super().forward(x)


def test_listings(service, client, tmp_path, monkeypatch, capsys):
    model, expected = layers([8, 5])
    (tmp_path / "net.onnx").write_bytes(model)
    monkeypatch.chdir(tmp_path)
    for name, value in (("SERVICE", service.url), ("API_KEY", service.key)):
        monkeypatch.setenv(f"TORCH_VULKAN_{name}", value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = (ROOT / "docs" / "service.md").read_text()
    load, ask, receive, register = re.findall(r"```python\n(.*?)```", text, re.S)
    job = client.submit("net.onnx", ["lavapipe"], name="team/resnet50")
    client.wait(job["id"], SECONDS)
    names = {"tv": tv, "images": numpy.ones((2, 8), numpy.float32), "url": service.url,
             "key": service.key}
    exec(load, names)
    numpy.testing.assert_allclose(names["y"], expected(names["images"]), rtol=1e-5, atol=1e-6)
    exec(ask, names)
    assert capsys.readouterr().out.endswith(" s\nCOMPLETED\n")
    body = b'{"type": "job.completed"}'
    names |= {"secret": client.webhook_secret(), "body": body, "headers": webhooks.headers(
        client.webhook_secret(), "msg_1", int(time.time()), body)}
    exec(receive, names)
    assert names["event"] == {"type": "job.completed"}
    names |= {"module": Net(), "batch": torch.ones(2, 8)}
    exec(register, names)
    published, = [a for a in client.artifacts("team/net") if a["published_by"]]
    assert published["level"] == 5 and published["tuned"]
    named = set(re.findall(r"`(\w+)`", text.split("as methods:")[1].split(". It raises")[0]))
    assert named == {name for name in dir(tv.service.Client) if not name.startswith("_")} - {
        "upload", "close", "health"}


def test_every_option_of_serve_is_on_the_page():
    from torch_vulkan._service.commands.cli import make_parser

    text = (ROOT / "docs" / "service.md").read_text()
    commands = next(a for a in make_parser()._actions if a.dest == "command").choices
    assert set(commands) == set(re.findall(r"^\| `(\w+)", text, re.M))
    for name, command in commands.items():
        for action in command._actions:
            for option in action.option_strings:
                assert len(option) < 3 or option == "--help" or f"{option}" in text, (name, option)
