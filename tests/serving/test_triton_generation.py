"""Triton's backend: folders of tv.save_decoder, which stream a response for each token."""

import functools
import json
import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import served
import torch
import transformers

import torch_vulkan as tv

from fault_helpers import LAYER, shared_library
from workloads import triton_process
from workloads.decoders import VOCABULARY, byte_tokenizer, decoder
from workloads.patience import patience
from workloads.triton_process import Refused, Server, add_model

MISSING = triton_process.what_is_missing()
pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING),
              pytest.mark.filterwarnings("ignore")]
transformers.logging.set_verbosity_error()
VKEXEC = Path(tv.__file__).parent / "bin" / "vkexec"
CLIENT = Path(__file__).parent / "generation_client.py"
ROOM = 240
PROMPT = "to be or not"
DRAWN = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.3, "seed": 7}
FLAGS = {"max_new_tokens": "tokens", "temperature": "temperature", "top_k": "topK",
         "top_p": "topP", "repetition_penalty": "repetitionPenalty", "seed": "seed"}
NUMBERS = {"input_ids": "INT64", "max_new_tokens": "INT64", "top_k": "INT64", "seed": "INT64",
           "temperature": "FP64", "top_p": "FP64", "repetition_penalty": "FP64"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A decoder whose text has no end."""
    made = tmp_path_factory.mktemp("llama")
    tv.save_decoder(decoder("llama"), made, ROOM, tokenizer=byte_tokenizer())
    return made


def add_decoder(repository, name, folder, config="", without=(), **info):
    """A model of the repository: the folder's files, some of them left out, and what
    generation.json says else."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(f'backend: "vulkan"\n{config}')
    for file in folder.iterdir():
        if file.name not in without:
            (version / file.name).symlink_to(file)
    if info:
        whole = json.loads((folder / "generation.json").read_text()) | info
        (version / "generation.json").unlink()
        (version / "generation.json").write_text(json.dumps(whole))
    return version


def parameter(name, value):
    return f'parameters {{ key: "{name}", value: {{ string_value: "{value}" }} }}\n'


WHOLE = "model_transaction_policy { decoupled: false }\n"


@pytest.fixture(scope="module")
def repository(folder, tmp_path_factory):
    made = tmp_path_factory.mktemp("repository")
    add_decoder(made, "story", folder)
    add_decoder(made, "whole", folder, WHOLE)
    add_decoder(made, "plain", folder, without=["tokenizer.json"])
    add_decoder(made, "two", folder, "instance_group [{ kind: KIND_MODEL, count: 2 }]\n" +
                parameter("steps_per_submission", "3"))
    return made


@pytest.fixture(scope="module")
def server(repository, tmp_path_factory):
    with Server(repository, tmp_path_factory.mktemp("log") / "server.log") as made:
        yield made
        assert made.is_alive()


@pytest.fixture(scope="module")
def explicit(tmp_path_factory):
    """A server, and the repository whose models it loads on request."""
    repository = tmp_path_factory.mktemp("explicit")
    with Server(repository, repository.parent / "explicit.log", explicit=True) as made:
        yield made, repository
        assert made.is_alive()


@pytest.fixture
def client(server):
    made = server.client()
    yield made
    made.close()


def request(model="story", cancel_after=None, outputs=(), **inputs):
    """As generation_client.py takes it; an input is its value, or its type and values."""
    given = {}
    for name, value in inputs.items():
        if isinstance(value, tuple):
            given[name] = value
        elif name == "prompt":
            given[name] = ("BYTES", [value])
        else:
            given[name] = (NUMBERS[name], value if isinstance(value, list) else [value])
    return {"model": model, "inputs": given, "cancel_after": cancel_after,
            "outputs": list(outputs)}


def stream(server, *requests):
    """The responses to each of the requests, which are sent over one stream."""
    python = triton_process.ENVIRONMENT / "bin" / "python"
    done = subprocess.run([python, CLIENT, str(server.grpc)], input=json.dumps(requests),
                          capture_output=True, text=True, timeout=patience(300),
                          env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def joined(responses):
    """Text, tokens and end of responses that have one token each."""
    assert [len(response["tokens"]) for response in responses] == [1] * len(responses)
    assert [response["final"] for response in responses] == [False] * (len(responses) - 1) + [True]
    assert all(response["finish_reason"] == "" for response in responses[:-1])
    return ("".join(response["text"] for response in responses),
            [token for response in responses for token in response["tokens"]],
            responses[-1]["finish_reason"])


@functools.cache
def vkexec(folder, prompt=PROMPT, **given):
    """The text that `vkexec generate` makes."""
    flags = [f"--{FLAGS[name]}={value}" for name, value in given.items()]
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_PRELOAD")}
    done = subprocess.run([VKEXEC, "generate", f"--model={folder}", f"--prompt={prompt}", *flags],
                          capture_output=True, check=True, timeout=patience(300), env=environment)
    return done.stdout.decode()[:-1]


def ids_of(text):
    return byte_tokenizer().encode(text).ids


def eager(count, prompt=PROMPT):
    """The tokens that transformers adds."""
    ids = torch.tensor([ids_of(prompt)])
    made = decoder("llama").generate(ids, max_new_tokens=count, do_sample=False)
    return made[0, ids.shape[1]:].tolist()


def counts(client, model):
    found = client.statistics(model)
    stats = found["inference_stats"]
    return {"success": stats["success"].get("count", 0), "fail": stats["fail"].get("count", 0),
            "executions": found.get("execution_count", 0)}


def wait_for(client, model, **wanted):
    """Statistics come behind the response that they are of."""
    for _ in range(1200):
        found = counts(client, model)
        if all(found[name] >= value for name, value in wanted.items()):
            return found
        time.sleep(0.05)
    raise AssertionError((found, wanted))


def test_a_configuration_is_completed(client):
    config = client.get("/v2/models/story/config")
    assert config["max_batch_size"] == 0
    assert config["model_transaction_policy"]["decoupled"] is True
    inputs = {i["name"]: (i["data_type"], i["dims"], i["optional"]) for i in config["input"]}
    assert inputs.pop("prompt") == ("TYPE_STRING", [1], True)
    assert {name: kind for name, (kind, _, _) in inputs.items()} == {
        name: f"TYPE_{kind}" for name, kind in NUMBERS.items()}
    assert all(optional for _, _, optional in inputs.values())
    outputs = {o["name"]: (o["data_type"], o["dims"]) for o in config["output"]}
    assert {name: kind for name, (kind, _) in outputs.items()} == {
        "text": "TYPE_STRING", "tokens": "TYPE_INT64", "finish_reason": "TYPE_STRING"}
    plain = client.get("/v2/models/plain/config")
    (ids,) = [i for i in plain["input"] if i["name"] == "input_ids"]
    assert not ids["optional"]
    assert "prompt" not in {i["name"] for i in plain["input"]}
    assert {o["name"] for o in plain["output"]} == {"tokens", "finish_reason"}
    whole = client.get("/v2/models/whole/config")
    assert whole["model_transaction_policy"]["decoupled"] is False


def test_a_response_for_each_token(server, folder):
    """Greedy and drawn: the text of vkexec, by prompts in text and in tokens. One text after the
    other is made in the same state."""
    greedy, drawn = {"max_new_tokens": 24}, {"max_new_tokens": 24, **DRAWN}
    asked = [{"prompt": PROMPT, **greedy}, {"prompt": PROMPT, **drawn},
             {"input_ids": ids_of(PROMPT), **greedy}, {"prompt": PROMPT, **greedy},
             {"prompt": PROMPT, **drawn, "seed": 1 << 40 | 5}]
    found = stream(server, *(request(**a) for a in asked))
    answers = [joined(responses) for responses in found]
    places = [response["place"] for responses in found for response in responses]
    assert places == sorted(places), "one after the other"
    want = vkexec(folder, **greedy)
    for answer in (answers[0], answers[2], answers[3]):
        assert answer == (want, eager(24), "length")
    assert answers[1][0] == vkexec(folder, **drawn) != want
    assert answers[4][0] == vkexec(folder, **{**drawn, "seed": 1 << 40 | 5}) != answers[1][0]
    assert len(answers[1][1]) == len(answers[4][1]) == 24


def test_without_a_tokenizer(server):
    (responses,) = stream(server, request("plain", input_ids=ids_of(PROMPT), max_new_tokens=5))
    assert [set(r) for r in responses] == [{"tokens", "finish_reason", "final", "place"}] * 5
    assert [token for r in responses for token in r["tokens"]] == eager(5)


def test_only_what_is_wanted(server):
    (responses,) = stream(server, request(prompt=PROMPT, max_new_tokens=3, outputs=["tokens"]))
    assert [set(r) for r in responses] == [{"tokens", "final", "place"}] * 3


def test_a_text_ends_with_a_token_that_ends_one(explicit, folder):
    server, repository = explicit
    made = eager(12)
    add_decoder(repository, "short", folder, ends=[made[9]])
    client = server.client()
    client.load("short")
    client.close()
    (responses,) = stream(server, request("short", prompt=PROMPT))
    assert joined(responses)[1:] == (made[:made.index(made[9]) + 1], "stop")


def test_one_response_for_all(client, folder):
    """A model that is not decoupled."""
    def infer(**inputs):
        said = [{"name": name, "datatype": kind, "shape": [len(values)], "data": values}
                for name, (kind, values) in request(**inputs)["inputs"].items()]
        answer = client.ask("POST", "/v2/models/whole/infer", json.dumps({"inputs": said}))[1]
        return {o["name"]: o["data"] for o in json.loads(answer)["outputs"]}

    before = counts(client, "whole")
    assert infer(prompt=PROMPT, max_new_tokens=24) == {
        "text": [vkexec(folder, max_new_tokens=24)], "tokens": eager(24),
        "finish_reason": ["length"]}
    assert infer(prompt=PROMPT, max_new_tokens=9, **DRAWN)["text"] == [
        vkexec(folder, max_new_tokens=9, **DRAWN)]
    with pytest.raises(Refused, match="top_k.*needs temperature"):
        infer(prompt=PROMPT, top_k=3)
    after = wait_for(client, "whole", success=before["success"] + 2, fail=before["fail"] + 1)
    assert after["executions"] == before["executions"] + 2


def test_http(client, folder):
    """Triton's generate extension: JSON, and server-sent events."""
    asked = json.dumps({"prompt": PROMPT, "max_new_tokens": 6, "temperature": 0.8, "seed": 7})
    want = vkexec(folder, max_new_tokens=6, temperature=0.8, seed=7)
    whole = json.loads(client.ask("POST", "/v2/models/whole/generate", asked)[1])
    assert (whole["text"], whole["finish_reason"]) == (want, "length")
    events = client.ask("POST", "/v2/models/story/generate_stream", asked)[1].decode()
    found = [json.loads(line.removeprefix("data: ")) for line in events.splitlines() if line]
    assert len(found) == 6
    assert "".join(event["text"] for event in found) == want
    assert [event["tokens"] for event in found] == whole["tokens"]


WRONG = {
    "long": ({"prompt": "q" * 300}, "tokens; the cache has room for 240"),
    "too_many": ({"prompt": PROMPT, "max_new_tokens": ROOM}, "max_new_tokens is 240; the cache"),
    "negative": ({"prompt": PROMPT, "max_new_tokens": -3}, "max_new_tokens': got -3, want 1 to"),
    "none": ({"prompt": PROMPT, "max_new_tokens": 0}, "max_new_tokens': got 0"),
    "top_k": ({"prompt": PROMPT, "temperature": 1.0, "top_k": -1}, "top_k': got -1"),
    "top_p": ({"prompt": PROMPT, "temperature": 1.0, "top_p": 1.5}, "top_p': got 1.5.*want 0 to 1"),
    "nan": ({"prompt": PROMPT, "temperature": float("nan")}, "temperature': got"),
    "cold": ({"prompt": PROMPT, "temperature": 0.0}, "temperature': got 0.0+, want more than 0"),
    "penalty": ({"prompt": PROMPT, "repetition_penalty": -1.0}, "repetition_penalty': got -1"),
    "seed": ({"prompt": PROMPT, "temperature": 1.0, "seed": -1}, "seed': got -1"),
    "greedy_seed": ({"prompt": PROMPT, "seed": 1}, "seed': it needs temperature"),
    "token": ({"input_ids": [1, -2]}, "token -2, and the model .* knows 0 to 96"),
    "unknown_token": ({"input_ids": [VOCABULARY]}, "token 97, and the model"),
    "no_token": ({"input_ids": []}, "no token|size|shape"),
    "no_prompt": ({"max_new_tokens": 4}, "want one of the inputs .*got none"),
    "two_prompts": ({"prompt": PROMPT, "input_ids": [3]}, "want one of the inputs .*got both"),
    "dtype": ({"prompt": PROMPT, "max_new_tokens": ("INT32", [4])}, "INT32|INT64"),
    "float": ({"prompt": PROMPT, "temperature": ("FP32", [0.5])}, "FP32|FP64"),
    "two_texts": ({"prompt": ("BYTES", ["a", "b"])}, "prompt"),
    "unknown": ({"prompt": PROMPT, "tokens": ("INT64", [4])}, "tokens"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests_are_errors(case, server):
    """Each is alone on its stream, and the instance makes the next text."""
    inputs, says = WRONG[case]
    ((answer,),) = stream(server, request(**inputs))
    assert re.search(says, answer["error"]), answer


def test_a_text_after_errors(server, client):
    """Statistics count them, and what is right is made as before."""
    before = counts(client, "story")
    ((answer,),) = stream(server, request(prompt=PROMPT, max_new_tokens=ROOM))
    assert "error" in answer
    (responses,) = stream(server, request(prompt=PROMPT, max_new_tokens=8))
    assert joined(responses)[1] == eager(8)
    after = wait_for(client, "story", success=before["success"] + 1, fail=before["fail"] + 1)
    assert after["executions"] == before["executions"] + 1
    found = client.statistics("story")["inference_stats"]
    parts = [found[part]["ns"] for part in ("compute_input", "compute_infer", "compute_output")]
    assert all(part > 0 for part in parts)
    assert sum(parts) <= found["success"]["ns"]


def test_a_client_that_goes(server, client):
    """What it does not want any more is not made: the request counts as failed, and others wait no
    longer."""
    before = counts(client, "story")
    (responses,) = stream(server, request(prompt=PROMPT, cancel_after=2))
    assert len(responses) == 2
    after = wait_for(client, "story", fail=before["fail"] + 1)
    assert after["success"] == before["success"]
    (responses,) = stream(server, request(prompt=PROMPT, max_new_tokens=8))
    assert joined(responses)[1] == eager(8)


@pytest.mark.parametrize("model", ["story", "two"])
def test_clients_at_the_same_time(model, server, folder):
    """Each has its own text, of one instance and of two, also several on one stream."""
    prompts = [PROMPT, "that is the question", "q"]
    drawn = {"max_new_tokens": 32, **DRAWN}
    asked = [[{"prompt": p, "max_new_tokens": 32}, {"prompt": p, **drawn}] for p in prompts]
    with ThreadPoolExecutor(len(asked)) as pool:
        found = list(pool.map(lambda a: stream(server, *(request(model, **r) for r in a)), asked))
    for requests, answers in zip(asked, found, strict=True):
        for given, responses in zip(requests, answers, strict=True):
            assert joined(responses)[0] == vkexec(folder, **given)


REFUSED = {
    "batches": ("max_batch_size: 4\n", {}, "want 0, as a decoder makes one text at a time"),
    "type": ('input [{ name: "temperature", data_type: TYPE_FP32, dims: [1], optional: true }]\n',
             {}, "input 'temperature': got TYPE_FP32, want TYPE_FP64"),
    "input": ('input [{ name: "promt", data_type: TYPE_STRING, dims: [1] }]\n', {},
              "no input 'promt'; did you mean 'prompt'"),
    "steps": (parameter("steps_per_submission", "0"), {},
              "steps_per_submission: got '0', want a whole number from 1 to 65536"),
    "compiler": (parameter("optimization_level", "3"), {}, "optimization_level: .*built already"),
    "tokenizer": ("", {"vocabulary": 90}, "does not make the scores"),
    "version": ("", {"version": 9}, "got version 9"),
}


def refusal(server, name):
    client = server.client()
    with pytest.raises(Refused) as found:
        client.load(name)
    client.close()
    return str(found.value)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_configurations(case, explicit, folder):
    server, repository = explicit
    config, info, says = REFUSED[case]
    add_decoder(repository, f"refused_{case}", folder, config, **info)
    assert re.search(says, refusal(server, f"refused_{case}"))


@pytest.mark.parametrize("file", ["weights.safetensors", "prompt.vke", "step.vke"])
def test_files_that_are_missing(file, explicit, folder):
    server, repository = explicit
    add_decoder(repository, f"without_{file}", folder, without=[file])
    assert file in refusal(server, f"without_{file}")


def test_parameters_of_decoders_alone(explicit, tmp_path):
    server, repository = explicit
    add_model(repository, "engine", served.classifier(tmp_path / "net.vke"),
              parameter("steps_per_submission", "3"))
    assert "it is for folders of tv.save_decoder" in refusal(server, "engine")


def test_decoders_come_and_go(explicit, folder):
    server, repository = explicit
    add_decoder(repository, "goes", folder)
    client = server.client()
    for _ in range(3):
        client.load("goes")
        (responses,) = stream(server, request("goes", prompt=PROMPT, max_new_tokens=4))
        assert joined(responses)[1] == eager(4)
        client.unload("goes")
    client.close()


def test_a_lost_device_ends_a_text_and_no_more(folder, tmp_path):
    """The model is loaded again."""
    device = next((d for d in tv.devices() if d.type == "cpu"), None)
    if device is None:
        pytest.skip("no Vulkan device of type cpu")
    library = shared_library("vulkan_layer", tmp_path)
    (tmp_path / "layer.json").write_text(LAYER % library)
    add_decoder(tmp_path / "models", "story", folder, parameter("device", device.uuid))
    lost = {"VK_LAYER_PATH": str(tmp_path), "VK_INSTANCE_LAYERS": "VK_LAYER_TV_faults",
            "FAULT_LOST_AT": "700"}
    whole = []
    with Server(tmp_path / "models", tmp_path / "server.log", environment=lost) as server:
        for _ in range(4):
            (responses,) = stream(server, request(prompt=PROMPT))
            if "error" in responses[-1]:
                assert "lost" in responses[-1]["error"]
            else:
                whole.append(joined(responses)[1:])
    room = ROOM - len(ids_of(PROMPT))  # until the cache is full
    assert whole == [(eager(room), "length")] * 3
