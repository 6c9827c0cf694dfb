"""What is done with each type of operation in a co-executed step; the registration says it where no table does."""

from __future__ import annotations

from typing import Final

from recgraph import ops
from recgraph.ops import Facts, Fails, State

# The numbers are those of `Kind` in cc/python/signature.h.
PURE, WRITE, HOST, OPAQUE, HARMLESS, SHAPE, CONSTANT, IN_BODY, CALL, READ = range(10)

# Change the variables that they are given. Every one has a resource as its first input.
WRITES: Final = ops.described(lambda facts: facts.writes and facts.uses_variables)

# Run the program of a SubGraph; what it does to variables is found in that.
PROGRAMS: Final = frozenset({"Recgraph>Invoke", "Recgraph>InvokeGradient"})


def _kind(name: str, facts: Facts) -> int | None:
    """What is done with an operation; None where that follows from its registration."""
    if name in WRITES or name in PROGRAMS:
        return WRITE
    if name == "_EagerConst":
        return CONSTANT
    if name in ("Placeholder", "PlaceholderWithDefault"):
        return HOST  # fed in place of computed: it stands for what tf.function alone may see
    if facts.uses_variables and facts.only_reads:
        return READ if facts.state is State.READS else HARMLESS
    if facts.state is State.PURE:
        return SHAPE if facts.form is ops.Form.MEASURES else None
    if facts.state is State.CALLS or (facts.checks and facts.state is State.SILENT):
        return IN_BODY
    if facts.state is State.OUTSIDE:
        return HOST  # some are not stateful by their registration
    return OPAQUE if facts.state is State.PYTHON else None


_ALL: Final = ops.described(lambda facts: True)
KINDS: Final = {name: kind for name in _ALL if (kind := _kind(name, ops.facts(name))) is not None}


def may_be_deferred(name: str) -> bool:
    """Whether a write cannot fail if its variables have values, its inputs fitting shapes, and its rows exist."""
    return name in WRITES and ops.facts(name).fails in (Fails.ASSIGNS, Fails.UPDATES, Fails.ROWS)


def rows_of(name: str) -> int | None:
    """The input of a write that says which rows of its first input it is about, if it is about rows."""
    return ops.facts(name).rows


def may_be_in_program(name: str) -> bool:
    """Whether a SubGraph with an operation of this type can be part of a graph: it may be done before Python is there.

    The library's own operations in a program only hand values from call to call.
    """
    facts = ops.facts(name)
    if facts.state is State.OURS:
        return True
    if name in KINDS:
        return KINDS[name] not in (HOST, OPAQUE)
    return not facts.counts_as_stateful


def may_fail(name: str, is_integer: bool) -> bool:
    """Whether an operation may have an error that depends on values.

    Python waits for those that may, so that an error is raised where eager execution raises it.
    """
    depends_on_shapes = ops.facts(name).fails in (Fails.ASSIGNS, Fails.UPDATES, Fails.CALLEES)
    return not depends_on_shapes and not ops.fails_only_in_shape(name, is_integer)
