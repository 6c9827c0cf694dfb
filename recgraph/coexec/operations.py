"""What is done with each type of operation in a co-executed step; the registration says it where no table does."""

from __future__ import annotations

from typing import Final

from recgraph import tf_private
from recgraph.infallible import fails_only_in_shape

# The numbers are those of `Kind` in cc/python/signature.h.
PURE, WRITE, HOST, OPAQUE, HARMLESS, SHAPE, CONSTANT, IN_BODY, CALL, READ = range(10)

# Read variables and do not change them.
READS: Final = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd"})

# Change the variables that they are given. Every one has a resource as its first input.
WRITES: Final = frozenset(
    {
        "AssignVariableOp",
        "AssignAddVariableOp",
        "AssignSubVariableOp",
        "ResourceStridedSliceAssign",
        *(f"ResourceScatter{kind}" for kind in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update")),
        *(f"ResourceScatterNd{kind}" for kind in ("Add", "Sub", "Min", "Max", "Update")),
        "ResourceApplyGradientDescent",
        "ResourceApplyMomentum",
        "ResourceApplyKerasMomentum",
        "ResourceApplyAdam",
        "ResourceApplyAdagradV2",
        "ResourceApplyRMSProp",
        "ResourceSparseApplyMomentum",
        "ResourceSparseApplyKerasMomentum",
        "ResourceSparseApplyAdagradV2",
        "StatefulUniform",
        "StatefulUniformFullInt",
        "StatefulUniformInt",
        "StatefulStandardNormalV2",
        "StatefulTruncatedNormal",
        "StatefulRandomBinomial",
        "RngReadAndSkip",
        "RngSkip",
    }
)

# Run the program of a SubGraph; what it does to variables is found in that.
PROGRAMS: Final = frozenset({"Recgraph>Invoke", "Recgraph>InvokeGradient"})

# Stateful only because of what the functions that they call may do, which is looked at too.
_CONTROL: Final = frozenset({"Case", "If", "PartitionedCall", "StatefulPartitionedCall", "While"})
# The same, not stateful.
_PURE_CONTROL: Final = frozenset({"For", "StatelessCase", "StatelessIf", "StatelessWhile"})

KINDS: Final[dict[str, int]] = {
    **dict.fromkeys(READS, READ),
    **dict.fromkeys(WRITES | PROGRAMS, WRITE),
    **dict.fromkeys(("EagerPyFunc", "PyFunc", "PyFuncStateless"), OPAQUE),
    **dict.fromkeys(("DisableCopyOnRead", "VarIsInitializedOp", "VariableShape"), HARMLESS),
    **dict.fromkeys(("Shape", "ShapeN", "Size", "Rank"), SHAPE),
    "_EagerConst": CONSTANT,
    **dict.fromkeys(_CONTROL | {"Assert"}, IN_BODY),
    # Not stateful by their registration, but what they give may change.
    **dict.fromkeys(("GenerateVocabRemapping", "MatchingFiles", "ReadFile"), HOST),
    # Fed in place of computed: it stands for what tf.function alone may see.
    "Placeholder": HOST,
    "PlaceholderWithDefault": HOST,
}

# Beside those of `recgraph.infallible`: they are given variables that have a value, and shapes that fit.
_UPDATES: Final = frozenset(
    {
        "AssignVariableOp",
        "AssignAddVariableOp",
        "AssignSubVariableOp",
        "ResourceApplyGradientDescent",
        "ResourceApplyMomentum",
        "ResourceApplyKerasMomentum",
        "ResourceApplyAdam",
        "ResourceApplyAdagradV2",
        "ResourceApplyRMSProp",
    }
)

# Writes to rows of variables, with the input that says which rows.
_ROW_WRITES: Final = {
    **{f"ResourceScatter{kind}": 1 for kind in ("Add", "Sub", "Mul", "Min", "Max", "Update")},
    "ResourceSparseApplyAdagradV2": 5,
    "ResourceSparseApplyKerasMomentum": 4,
    "ResourceSparseApplyMomentum": 4,
}


def may_be_deferred(name: str) -> bool:
    """Whether a write cannot fail if its variables have values, its inputs fitting shapes, and its rows exist."""
    return name in _UPDATES or name in _ROW_WRITES


def rows_of(name: str) -> int | None:
    """The input of a write that says which rows of its first input it is about, if it is about rows."""
    return _ROW_WRITES.get(name)


def may_be_in_program(name: str) -> bool:
    """Whether a SubGraph with an operation of this type can be part of a graph: it may be done before Python is there.

    The library's own operations in a program only hand values from call to call.
    """
    if name.startswith("Recgraph>"):
        return True
    if name in KINDS:
        return KINDS[name] not in (HOST, OPAQUE)
    try:
        return not tf_private.op_definition(name).is_stateful
    except KeyError:
        return False


def may_fail(name: str, is_integer: bool) -> bool:
    """Whether an operation may have an error that depends on values.

    Python waits for those that may, so that an error is raised where eager execution raises it.
    """
    return name not in _UPDATES | _CONTROL | _PURE_CONTROL and not fails_only_in_shape(name, is_integer)
