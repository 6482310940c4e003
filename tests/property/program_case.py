"""A program under test as text: inputs(call, state) makes the arguments of each call,
program(*args) is compiled. A case is a Python file of its own, which found/ keeps."""

import linecache
from dataclasses import dataclass, field, replace

HEAD = """import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers
"""


def indented(lines) -> str:
    return "".join(f"    {part}\n" for line in lines for part in line.split("\n"))


@dataclass
class Case:
    """Statements by line; `arguments` are names that `inputs` makes and `body` reads."""

    inputs: list[str]
    arguments: list[str]
    body: list[str]
    returned: list[str]
    container: str = "tuple"
    mode: str = "grad"  # no_grad, inference_mode, autocast
    dynamic: bool | None = None
    options: dict = field(default_factory=dict)
    calls: int = 3

    def text(self, title: str = "") -> str:
        """The file of the case."""
        results = ", ".join(self.returned)
        if self.container == "dict":
            results = "{" + ", ".join(f'"{i}": {r}' for i, r in enumerate(self.returned)) + "}"
        elif self.container == "list":
            results = f"[{results}]"
        elif len(self.returned) > 1:
            results = f"({results})"
        arguments = ", ".join(self.arguments)
        made = f"return ({arguments},)" if self.arguments else "return ()"
        return (
            (f'"""{title}"""\n\n' if title else "") + HEAD
            + f'\nMODE, DYNAMIC, CALLS = "{self.mode}", {self.dynamic}, {self.calls}\n'
            + f"OPTIONS = {self.options!r}\n\n\n"
            + f"def inputs(call, state):\n{indented([*self.inputs, made])}\n\n"
            + f"def program({arguments}):\n{indented([*self.body, f'return {results}'])}")

    def smaller(self):
        """Cases with less in them, those that lose most first."""
        for size in (8, 4, 2, 1):
            for start in range(0, len(self.body), size):
                yield replace(self, body=self.body[:start] + self.body[start + size:])
        for i in range(len(self.returned)):
            if len(self.returned) > 1:
                yield replace(self, returned=self.returned[:i] + self.returned[i + 1:])
        if self.container != "tuple":
            yield replace(self, container="tuple")
        for i, line in enumerate(self.body):
            yield from (replace(self, body=[*self.body[:i], part, *self.body[i + 1:]])
                        for part in _parts(line))
        for i, name in enumerate(self.arguments):
            if not any(name in line for line in (*self.body, *self.returned)):
                yield replace(self, arguments=self.arguments[:i] + self.arguments[i + 1:])
        for i in range(len(self.inputs)):
            yield replace(self, inputs=self.inputs[:i] + self.inputs[i + 1:])
        for i, line in enumerate(self.inputs):
            if ", grad=True" in line:
                plain = line.replace(", grad=True", "")
                yield replace(self, inputs=[*self.inputs[:i], plain, *self.inputs[i + 1:]])
        if self.calls > 1:
            yield replace(self, calls=self.calls - 1)
        if self.mode != "no_grad":
            yield replace(self, mode="no_grad")
        if self.dynamic is not None:
            yield replace(self, dynamic=None)
        if self.options:
            yield replace(self, options={})


def _parts(line: str):
    """What a compound statement is without its condition, or without its second half."""
    head, *rest = line.split("\n")
    if rest:
        yield from (part.strip() for part in rest if not part.startswith("else"))
    elif " = " in head and not head.startswith(" "):
        name, _, value = head.partition(" = ")
        if name.isidentifier() and "." in value and value.split(".")[0].isidentifier():
            yield f"{name} = {value.split('.')[0]}"


@dataclass
class Loaded:
    """A case that can be run."""

    inputs: object
    program: object
    mode: str
    dynamic: bool | None
    options: dict
    calls: int


def load(text: str, name: str = "<random program>") -> Loaded:
    """Runs a case's file."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {"__name__": "random_program"}
    exec(compile(text, name, "exec"), space)
    return Loaded(space["inputs"], space["program"], space["MODE"], space["DYNAMIC"],
                  space["OPTIONS"], space["CALLS"])
