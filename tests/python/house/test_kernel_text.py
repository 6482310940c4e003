"""How kernels are written: macros use what they are given, and main reads as a paragraph.

A macro is given its parameters. Beside them its body may name what the file has: functions,
variables and constants outside of functions, other macros, and what the generated text has
(accessors of operands, parameters). It does not name variables of the function that calls it, nor
the offsets that `…_OFFSETS` declares there, so that a caller sees what is read and what is changed.
"""

import functools
import re
from pathlib import Path

import pytest

CONVERTERS = Path(__file__).resolve().parents[3] / "converters"
FILES = {p.name: p for p in sorted(CONVERTERS.rglob("*")) if p.suffix in (".comp", ".glsl")}
KERNELS = [name for name in FILES if name.endswith(".comp")]

LONGEST_MAIN = 45

WORD = re.compile(r"(?<!\w)[A-Za-z_]\w*")
DECLARATION = re.compile(
    r"(?:^|[;{}(,)]|\]\])\s*(?:(?:const|precise|in|out|inout|coherent|volatile|restrict)\s+)*"
    r"([A-Za-z_]\w*)\s+(?!in\b|return\b)([A-Za-z_]\w*)\s*(?=[=;,)\[:])"
)
NO_TYPES = {"return", "else", "case", "goto", "struct", "shared", "const", "layout", "define"}


def text_of(name):
    """The file's lines without comments; a macro is one line."""
    text = FILES[name].read_text()
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r"\\\n", " ", text)


@functools.cache
def included(name):
    """Names of the file and of all that it includes."""
    found = {name}
    for other in re.findall(r'^#include "(.*)"', text_of(name), re.M):
        if other in FILES and other not in found:
            found |= included(other)
    return found


@functools.cache
def macros(name):
    """(name, parameters, body) of the file's macros."""
    found = []
    for line in text_of(name).splitlines():
        match = re.match(r"\s*#\s*define\s+(\w+)(\(([^)]*)\))?(.*)", line)
        if match:
            parameters = WORD.findall(match[3] or "")
            found.append((match[1], parameters, match[4]))
    return found


def declarators(text, at):
    """Names declared after the first one: `uint a = f(x, y), b[2];`."""
    depth, names, wants = 0, [], False
    while at < len(text):
        c = text[at]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth < 0:
                break
        elif c == ";" and depth == 0:
            break
        elif c == "," and depth == 0:
            wants = True
        elif wants and (match := WORD.match(text, at)):
            if re.match(r"\s+\w", text[match.end() :]):
                break  # a type: the next parameter, which is found by itself
            names.append(match[0])
            at = match.end() - 1
            wants = False
        at += 1
    return names


def declared(text):
    """Variables that a text declares, in functions and their parameters too."""
    names = set()
    for match in DECLARATION.finditer(text):
        if match[1] in NO_TYPES:
            continue
        names.add(match[2])
        names.update(declarators(text, match.end()))
    return names


@functools.cache
def scopes(name):
    """Variables declared outside of functions, and those inside, their parameters too."""
    lines = [line for line in text_of(name).splitlines() if not re.match(r"\s*#", line)]
    outside, inside, depth, in_function = [], [], 0, False
    for line in lines:
        if depth == 0 and re.match(r"[A-Za-z_]\w* \w+\(", line):
            in_function = True
        (inside if in_function else outside).append(line)
        depth += line.count("{") - line.count("}")
        if depth == 0 and line.rstrip().endswith((";", "}")):
            in_function = False
    return declared("\n" + "\n".join(outside)), declared("\n" + "\n".join(inside))


def arguments(text, at):
    """Arguments of a call whose parenthesis opens at `at`."""
    depth, found, begin = 0, [], at + 1
    for k in range(at, len(text)):
        depth += (text[k] in "([{") - (text[k] in ")]}")
        if (text[k] == "," and depth == 1) or depth == 0:
            found.append(text[begin:k].strip())
            begin = k + 1
        if depth == 0:
            break
    return found


def declares(body, known, depth=4):
    """Variables that a macro's body declares, also through other macros: i of FOR(i, n)."""
    names = declared(";" + body)
    for match in WORD.finditer(body) if depth else ():
        for parameters, inner in known.get(match[0], ()):
            made = declares(inner, known, depth - 1)
            names |= made - set(parameters)
            called = body[match.end() : match.end() + 1] == "("
            given = arguments(body, match.end()) if called else []
            names |= {a for p, a in zip(parameters, given) if p in made}
    return names


def callers_variables(kernel):
    """`file: macro: names` for each macro that a kernel has which uses variables of functions."""
    files = sorted(included(kernel))
    known = {}
    for f in files:
        for macro, parameters, body in macros(f):
            known.setdefault(macro, []).append((parameters, body))
    local = set().union(*(scopes(f)[1] for f in files))
    local -= known.keys() | set().union(*(scopes(f)[0] for f in files))
    found = set()
    for f in files:
        for macro, parameters, body in macros(f):
            body = re.sub(r"\.\s*[A-Za-z_]\w*", "", body)
            own = set(parameters) | declares(body, known)
            used = {w for w in WORD.findall(body) if w in local or w.endswith("_offset")} - own
            if used:
                found.add(f"{f}: {macro}: {', '.join(sorted(used))}")
    return found


def test_macros_use_what_they_are_given():
    found = set().union(*(callers_variables(kernel) for kernel in KERNELS))
    assert not found, "\n".join(sorted(found))


HIDDEN = """
#define FOR(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)
#define GIVEN(a, n) FOR(k, n) { const float v = a[k] * scale; a[k] = v; }
#define HIDING(a) \\
  a = load(at) + rest.x;
#define OFFSET(i) x_load(x_offset + i)
const float scale = 2.0;
float load(uint i) { return x_load(i); }
void main() {
  uint at = 0u, rest = 1u;
  float v[4];
  GIVEN(v, 4)
}
"""


def test_what_the_check_finds(tmp_path, monkeypatch):
    kernel = tmp_path / "of_this_test.comp"
    kernel.write_text(HIDDEN)
    monkeypatch.setitem(FILES, kernel.name, kernel)
    assert callers_variables(kernel.name) == {
        f"{kernel.name}: HIDING: at, rest",
        f"{kernel.name}: OFFSET: x_offset",
    }


def length_of_main(kernel):
    lines = FILES[kernel].read_text().splitlines()
    begin = lines.index("void main() {")
    return lines.index("}", begin) - begin + 1


@pytest.mark.parametrize("kernel", KERNELS)
def test_main_fits_a_screen(kernel):
    assert length_of_main(kernel) <= LONGEST_MAIN
