"""Guards of the size of a view's base that is not an argument: PyTorch fails when it writes them
(torch 2.13: an IndexError or an AssertionError in produce_guards_verbose)."""

from functools import partial

import torch


def count() -> int:
    """How many guards the graph has that Dynamo compiles now."""
    environment = _environment()
    return len(environment.guards) if environment is not None else 0


def drop_since(before: int) -> bool:
    """Drops such guards behind the first `before`, which is right where nothing that they were made
    for is kept; whether there was one."""
    environment = _environment()
    if environment is None:
        return False
    made = environment.guards[before:]
    kept = [guard for guard in made if not _fails(environment, guard)]
    environment.guards[before:] = kept
    return len(kept) < len(made)


def _environment():
    context = torch._guards.TracingContext.try_get()
    return getattr(context and context.fake_mode, "shape_env", None)


def _fails(environment, guard) -> bool:
    return any(map(partial(_is_of_a_base, environment),
                   environment.simplify(guard.expr).free_symbols)) and (
        environment._maybe_evaluate_static(guard.expr, axioms=(),
                                           size_oblivious=guard.size_oblivious) is None)


def _is_of_a_base(environment, symbol) -> bool:
    sources = environment.var_to_sources.get(symbol, ())
    return bool(sources) and all("._base" in _name(source) for source in sources)


def _name(source) -> str:
    return source.name if isinstance(source.name, str) else source.name()
