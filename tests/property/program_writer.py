"""Writes random programs: inputs, then statements that eager takes, then what is returned."""

import contextlib
import re
import warnings
from random import Random

import torch
from program_case import HEAD, Case, indented
from program_statements import FLOATS, INTS, Scope, statement
from program_worlds import MODES

CALLS = 3
SIZES = (2, 3, 4, 5, 7, 8)
INT_ARGUMENTS = (0, 1, 2, 3, 5, -1, -3, 7, 100, 2**31 - 1, 2**31, -2**31, 2**32 + 3, 2**50, -2**50)
SMALL_INTS = (0, 1, 2, 3, 4, -1, -2, 5)
LARGEST = {torch.float16: 1e3, torch.float32: 1e15, torch.bfloat16: 1e15, torch.float64: 1e15}
MOST_ELEMENTS = 1 << 17


def write(seed: int, most: int = 12) -> Case:
    """The program of a seed."""
    rng = Random(seed)
    case = Case([], [], [], [])
    case.mode = rng.choices(["grad", "no_grad", "inference_mode", "autocast"], [4, 4, 2, 1])[0]
    case.dynamic = rng.choices([None, True, False], [6, 3, 1])[0]
    case.options = rng.choice([{}, {"min_block_size": 1}])
    _write_inputs(case, rng)
    worlds = _Worlds(case, seed)
    wanted = rng.randint(3, most)
    for _ in range(6 * wanted):
        if len(case.body) >= wanted or worlds.ended:
            break
        scope = Scope(rng, worlds.values(), first=1 + _last_name(case.body))
        try:
            line = statement(scope)
        except IndexError:
            continue
        worlds.take(line, allow_error=rng.random() < 0.02)
    _write_results(case, rng, worlds.values())
    return case


def _last_name(body: list[str]) -> int:
    return max((int(n) for n in re.findall(r"\bv(\d+)", "\n".join(body))), default=0)


def _size(rng: Random) -> str:
    """A size, or one for each call."""
    if rng.random() < 0.35:
        return str(rng.choice(SIZES))
    special = rng.choice((0, 1, 13, 31)) if rng.random() < 0.3 else rng.choice(SIZES)
    sizes = [rng.choice(SIZES), rng.choice(SIZES), special]
    if rng.random() < 0.3:
        rng.shuffle(sizes)
    return f"({', '.join(map(str, sizes))})[call]"


def _write_inputs(case: Case, rng: Random) -> None:
    lines, names = case.inputs, case.arguments
    lines.append(f"n = {_size(rng)}")
    lines.append(f"m = {_size(rng)}")
    grad = case.mode in ("grad", "autocast")
    for i in range(rng.randint(1, 3)):
        name = "xyz"[i]
        _write_tensor(case, rng, name, grad and rng.random() < 0.6)
        names.append(name)
    if rng.random() < 0.15:
        same = rng.choice(("", "[1:]", "[:-1]", ".view(-1)", ".detach()", ".t()", "[::2]"))
        _try_line(case, f"{names[-1]} = {names[0]}{same}", lines[-1])
    _write_scalars(case, rng)
    if rng.random() < 0.12:
        lines += ['module = state.setdefault("module", Affine(4, 1))',
                  'state["parameters"] = [*module.parameters()]']
        if not grad:
            lines.append("with torch.no_grad():\n    module.w.add_(call)")
        names.append("module")
    if rng.random() < 0.03:
        lines.append(f"h = huge({rng.choice(['2**31', '2**31 + n', '2**16, 2**16', '2**33'])})")
        names.append("h")


def _write_tensor(case: Case, rng: Random, name: str, grad: bool) -> None:
    dtype = rng.choice(FLOATS * 3 + INTS + (torch.bool,) * 2)
    shape = rng.choice(("n,", "n, m", "n, m", "n, 4", "2, n", "n, n", "", "2, 3", "4,", "n, 2, m",
                        "6,", "n * m,", "4, 4"))
    if rng.random() < 0.01:
        shape = "2**16,"
    grad = grad and dtype.is_floating_point
    made = f"numbers(({shape}), {dtype}, {rng.randrange(100)}{', grad=True' if grad else ''})"
    if dtype in (torch.float32, torch.float64) and rng.random() < 0.05:
        grad = False
        made = f"torch.complex(numbers(({shape}), {dtype}, 1), numbers(({shape}), {dtype}, 2))"
        made += rng.choice(("", ".conj()", ".conj().imag", ".imag"))
    form = rng.choice(("", "", "", "", "", ".t()", "[1:]", "[::2]", "[:, 1:]", ".transpose(0, -1)",
                       "[..., :2]", ".expand(3, *SHAPE)", ".unsqueeze(1)", ".flatten()[1:]",
                       ".as_strided((2, 2), (1, 1))"))
    if "SHAPE" in form:
        case.inputs.append(f"{name} = {made}")
        form = form.replace("SHAPE", name + ".shape")
        _try_line(case, f"{name} = {name}{form}", f"{name} = {name}.t()")
        return
    if grad and not form and rng.random() < 0.5:
        form = " * 1"  # no leaf, so that it may be changed
    _try_line(case, f"{name} = {made}{form}", f"{name} = {made}")


def _try_line(case: Case, line: str, otherwise: str) -> None:
    """Adds a statement to the inputs, or another one where a call cannot take it."""
    case.inputs.append(line)
    try:
        for call in range(case.calls):
            _run_inputs(case, call, {})
    except Exception:  # noqa: BLE001  the shape of that call has no such form
        case.inputs[-1] = otherwise


def _write_scalars(case: Case, rng: Random) -> None:
    for name in rng.sample(["i", "j", "s", "b"], rng.choice((0, 0, 1, 1, 2))):
        if name == "s":
            values = [rng.choice((0.5, -1.5, 0.0, 2.0, 1e-3, 3.25)) for _ in range(CALLS)]
        elif name == "b":
            values = [rng.choice((True, False)) for _ in range(CALLS)]
        else:
            few = rng.choice((SMALL_INTS, INT_ARGUMENTS))
            values = [rng.choice(few) for _ in range(CALLS)]
        case.inputs.append(f"{name} = ({', '.join(map(repr, values))})[call]")
        case.arguments.append(name)


def _run_inputs(case: Case, call: int, state: dict) -> dict:
    space: dict = {}
    text = HEAD + f"def inputs(call, state):\n{indented([*case.inputs, 'return locals()'])}"
    exec(text, space)
    made = space["inputs"](call, state)
    return {name: made[name] for name in case.arguments if name in made}


class _Worlds:
    """The variables of each call, as eager computes them while the program is written."""

    def __init__(self, case: Case, seed: int):
        self._case, self.ended = case, False
        self._rebuild()

    def values(self) -> dict:
        return {k: v for k, v in self._spaces[0].items() if k not in self._hidden}

    def take(self, line: str, allow_error: bool) -> None:
        """Adds a line to the program where eager takes it in every call."""
        fine = self._run(line)
        if fine or allow_error and not self._bad_name:
            self._case.body.append(line)
            self.ended = not fine
        else:
            self._rebuild()

    def _rebuild(self) -> None:
        self._spaces, self._hidden = [], set()
        state: dict = {}
        for call in range(self._case.calls):
            space: dict = {}
            exec(HEAD, space)
            self._hidden = set(space)
            torch.manual_seed(call)
            space |= _run_inputs(self._case, call, state)
            self._spaces.append(space)
        for line in self._case.body:
            self._run(line)

    def _run(self, line: str) -> bool:
        code = compile(line, "<statement>", "exec")
        self._bad_name = False
        with warnings.catch_warnings(), MODES[self._case.mode]():
            warnings.simplefilter("ignore")
            for space in self._spaces:
                try:
                    exec(code, space)
                except Exception as error:  # noqa: BLE001
                    self._bad_name = isinstance(error, (NameError, SyntaxError))
                    return False
                if not all(map(_is_usable, space.values())):
                    self._bad_name = True
                    return False
        return True


def _is_usable(value) -> bool:
    if isinstance(value, (int, float)):
        return abs(value) < 2.0**62
    if not isinstance(value, torch.Tensor) or value._is_view() and value.numel() > MOST_ELEMENTS:
        return True
    if value.numel() > MOST_ELEMENTS or value.dtype.is_complex:
        return False
    with torch.no_grad(), contextlib.suppress(RuntimeError):
        if value.is_floating_point() and value.numel():
            largest = value.detach().abs().max().item()
            return largest <= LARGEST[value.dtype]
    return True


def _write_results(case: Case, rng: Random, values: dict) -> None:
    made = [n for n, v in values.items() if n.startswith("v") and n[1:].isdigit()]
    tensors = [n for n in made if isinstance(values[n], torch.Tensor)]
    inputs = [n for n in case.arguments if isinstance(values[n], torch.Tensor)
              and values[n].numel() <= MOST_ELEMENTS]
    few = rng.sample(tensors, min(len(tensors), rng.randint(1, 5)))
    if tensors and tensors[-1] not in few:
        few.append(tensors[-1])
    if rng.random() < 0.25:
        few += rng.sample(inputs, 1) if inputs else []
    if rng.random() < 0.1:
        few += rng.sample(few, 1) if few else []
    others = [n for n in made if n not in tensors]
    if others and rng.random() < 0.5:
        few.append(rng.choice(others))
    case.returned = few or ["None"]
    case.container = rng.choices(["tuple", "list", "dict"], [8, 1, 1])[0]
