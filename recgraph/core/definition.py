"""The definition of a SubGraph: its signature, its body while the user's code fills it, and after.

What calls, links and differentiates SubGraphs knows definitions. `SubGraph` is a definition that can be called.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import weakref
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import branches, engines, origin, signature, symbolic
from recgraph.core.body import BodyGraph
from recgraph.core.environment import Slots, is_differentiable
from recgraph.errors import DefinitionError, SignatureError, did_you_mean

_identities = itertools.count()
_by_identity: weakref.WeakValueDictionary[str, Definition] = weakref.WeakValueDictionary()

DEFAULT_MAX_DEPTH = 1_000_000

# The thesis's listing declares no outputs; a recursive call in it gives one tensor like this.
_ASSUMED_OUTPUT = tf.TensorSpec(None, tf.float32)


def by_identity(identity: str) -> Definition | None:
    """The definition with this identity, if it is still in use."""
    return _by_identity.get(identity)


class Definition:
    """What a SubGraph is: options, signature and body. See `SubGraph` for the arguments.

    Attributes:
        identity: unique in the process.
        placeholders: the inputs in the body.
        lock: for what is made at the first use.
        derivative: the gradient of the body, once it was made.
        pullback: the gradient as a definition of its own, and the captures that it has gradients for, once made.
        programs: the linked programs, by whether they have gradients and whether they are for the batched engine.
        is_wide: whether there is something to batch in a single call, once that was found out.
        followed: functions that make eager calls which accumulators follow.
        environment: the outer tensors that a call reads, once they were found.
        reached: the bodies of all SubGraphs that a call can reach, once that was found out.
        prepared: what is run in its place, once that was made (`body_rewrites.py`).
        rewritings: what was done to make it, as lines.
        ragged_calls: what calls it for rows that differ in length, by which arguments and results do.
    """

    def __init__(
        self,
        name: str | None = None,
        inputs: Any = None,
        outputs: Any = None,
        engine: str = "auto",
        gradient: str = "cache",
        max_depth: int | None = None,
        optimize: bool | None = None,
        memoize: bool = False,
    ) -> None:
        if not isinstance(name, str | None):
            raise DefinitionError(
                "the name of a SubGraph is a string",
                where=origin.here(),
                found=repr(name),
                next_step="write @rg.subgraph above a function" if callable(name) else "",
            )
        self.name = name or "subgraph"
        self.identity = f"{self.name}#{next(_identities)}"
        self.engine = _one_of("engine", engine, engines.ENGINES)
        self.gradient = _one_of("gradient", gradient, ("cache", "recompute"))
        self.max_depth = DEFAULT_MAX_DEPTH if max_depth is None else int(max_depth)
        if self.max_depth < 1:
            raise DefinitionError("max_depth must be at least 1", where=origin.here(), found=str(max_depth))
        self._declared_inputs = inputs
        self._declared_outputs = outputs
        self._flat_inputs = None if inputs is None else signature.flat_specs(inputs, "inputs")
        self._flat_outputs = None if outputs is None else signature.flat_specs(outputs, "outputs")
        self.placeholders: list[tf.Tensor] = []
        self._input_names: list[str | None] = []
        self._output_structure: Any = None
        self._assumed_call: str | None = None
        self._body: BodyGraph | None = None
        self._finished = False
        self._exits: contextlib.ExitStack | None = None
        self.lock = threading.RLock()
        self.derivative: Any = None  # made at the first use, as are these (`program.py`, `pullback.py`)
        self.pullback: tuple[Definition, list[tf.Tensor]] | None = None
        self.programs: dict[tuple[bool, bool, bool], Any] = {}
        self.is_wide: bool | None = None
        self.followed: dict[Any, Any] = {}
        self.environment: Slots | None = None
        self.reached: list[Any] | None = None
        self.optimize = optimize
        self.memoize = bool(memoize)
        self.prepared: Definition | None = None
        self.rewritings: list[str] = []
        self.ragged_calls: dict[Any, Any] = {}
        self._forms: dict[bool, list[signature.Form] | None] = {}
        _by_identity[self.identity] = self

    def __enter__(self) -> Any:
        if self._body is not None:
            raise DefinitionError(f"SubGraph '{self.name}' already has a body", where=origin.here())
        self._body = BodyGraph(self.name)
        self._exits = contextlib.ExitStack()
        self._exits.enter_context(self._body.as_default())
        self._control = self._exits.enter_context(tf_private.AutomaticControlDependencies())
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        assert self._exits is not None
        assert self._body is not None
        exits, self._exits = self._exits, None
        if kind is None and self._output_structure is None:
            kind = DefinitionError
            error = DefinitionError(
                f"SubGraph '{self.name}' was given no output",
                where=origin.here(),
                next_step=f"call {self.name}.output(...) at the end of the with block",
            )
            exits.__exit__(kind, error, None)
            self._abandon()
            raise error
        exits.__exit__(kind, error, trace)
        if kind is not None:
            self._abandon()
            explained = branches.explain(self.name, error, trace) or symbolic.explain(
                f"SubGraph '{self.name}'", error, trace
            )
            if explained is not None:
                raise explained from error
            return
        self._body.control_outputs.extend(self._control.ops_which_must_run)
        self._declared_inputs, self._declared_outputs = self.inputs, self.outputs  # from now on they stay
        self._finished = True

    def _abandon(self) -> None:
        """A definition that failed leaves nothing behind: the `with` block can be run again."""
        self._body = None
        self.placeholders = []
        self._input_names = []
        self._output_structure = None
        self._assumed_call = None

    @tf.autograph.experimental.do_not_convert
    def input(self, dtype: Any = tf.float32, shape: Any = (), name: str | None = None) -> tf.Tensor:
        """Adds an input to the body.

        Args:
            dtype: of the input; or a `tf.TensorSpec`, which says all three.
            shape: its static shape, scalar by default; dimensions may be None.
            name: for arguments that are passed by name, listings and errors.

        Returns:
            A symbolic tensor that stands for the argument of an invocation.

        Raises:
            DefinitionError: called outside the `with` block.
            SignatureError: it does not match the declared inputs.
        """
        body = self._open_body("input")
        index = len(self.placeholders)
        spec = dtype if isinstance(dtype, tf.TensorSpec) else tf.TensorSpec(shape, dtype)
        name = name or spec.name
        if self._flat_inputs is not None:
            spec = self._declared_input(index, spec)
        with tf.control_dependencies(None):
            placeholder = tf.compat.v1.placeholder(spec.dtype, spec.shape, name or spec.name or f"input_{index}")
        body.inputs.append(placeholder)
        self.placeholders.append(placeholder)
        self._input_names.append(name or spec.name)
        return placeholder

    def _declared_input(self, index: int, asked: tf.TensorSpec) -> tf.TensorSpec:
        assert self._flat_inputs is not None
        declared = self._flat_inputs[index] if index < len(self._flat_inputs) else None
        if declared is None or not signature.fits(declared, asked):
            raise SignatureError(
                f"{self.name}: input {index + 1} does not match the declared inputs",
                where=origin.here(),
                found=signature.describe(asked),
                expected=f"no more than {index} inputs" if declared is None else signature.describe(declared),
            )
        return declared

    def declared_arguments(self) -> Any:
        """The declared inputs as a nest of tensors of the body: all `input` calls in one."""
        assert self._flat_inputs is not None
        while len(self.placeholders) < len(self._flat_inputs):
            spec = self._flat_inputs[len(self.placeholders)]
            self.input(spec.dtype, spec.shape, spec.name)
        return tf.nest.pack_sequence_as(self._declared_inputs, self.placeholders)

    @tf.autograph.experimental.do_not_convert
    def output(self, value: Any, *more: Any, check: bool = True) -> None:
        """Sets the result of the body, which completes the definition.

        Args:
            value: a nest of tensors, or of values that can be converted to tensors.
            check: whether the result must match the declared outputs.

        Raises:
            DefinitionError: called outside the `with` block, a second time, or with several results that are no nest.
            SignatureError: the result does not match the declared outputs, or what an earlier recursive call was
                assumed to return.
        """
        body = self._open_body("output")
        if more:
            raise DefinitionError(
                f"{self.name}: output() takes one nest of results, found {1 + len(more)} arguments",
                where=origin.here(),
                next_step="give them as a tuple: output((first, second))",
            )
        if self._output_structure is not None:
            raise DefinitionError(f"{self.name}: output() was called twice", where=origin.here())
        tensors = tf.nest.map_structure(functools.partial(_as_tensor, self), value)
        if check:
            tensors = self._checked_outputs(tensors)
        tensors = tf.nest.map_structure(self._control.mark_as_return, tensors)
        self._output_structure = tf.nest.map_structure(lambda leaf: 0, tensors)
        body.outputs = tf.nest.flatten(tensors)

    def _open_body(self, what: str) -> BodyGraph:
        if self._body is None or self._exits is None:
            raise DefinitionError(
                f"{self.name}.{what}() must be called inside `with {self.name}:`",
                where=origin.here(),
            )
        return self._body

    def _checked_outputs(self, tensors: Any) -> Any:
        """The same; what only shows when it runs is checked then."""
        actual = [signature.spec_of(tensor) for tensor in tf.nest.flatten(tensors)]
        if self._declared_outputs is not None:
            expected, why = self._declared_outputs, "the outputs that were declared"
        elif self._assumed_call is not None:
            expected, why = _ASSUMED_OUTPUT, f"what the call at {self._assumed_call} was assumed to return"
        else:
            return tensors
        try:
            tf.nest.assert_same_structure(expected, tensors, check_types=False)
            fit = all(signature.fits(d, a) for d, a in zip(tf.nest.flatten(expected), actual, strict=True))
        except (ValueError, TypeError):
            fit = False
        if not fit:
            declaration = str(tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), tensors))
            raise SignatureError(
                f"{self.name}: the output is not {why}",
                where=origin.here(),
                found=signature.describe(tensors),
                expected=signature.describe(expected),
                next_step=f"declare it: SubGraph({self.name!r}, outputs={declaration})",
            )
        pairs = list(zip(tf.nest.flatten(tensors), tf.nest.flatten(expected), strict=True))
        for tensor, spec in pairs:
            for result in branches.results(tensor):
                if not spec.shape.is_compatible_with(result.shape):
                    raise SignatureError(
                        f"{self.name}: a branch does not give {why}",
                        where=origin.of_operation(result.op) or origin.here(),
                        found=signature.describe(result),
                        expected=signature.describe(spec),
                        next_step="give it that shape in every branch, or declare None where its sizes differ",
                    )
        checked = [signature.ensured(tensor, spec.shape, "output_as_declared") for tensor, spec in pairs]
        return tf.nest.pack_sequence_as(tensors, checked)

    # Signature.

    @property
    def inputs(self) -> Any:
        """The nest of TensorSpecs of the inputs; known once declared or defined."""
        if self._declared_inputs is not None:
            return self._declared_inputs
        return tuple(signature.spec_of(placeholder) for placeholder in self.placeholders)

    @property
    def outputs(self) -> Any:
        """The nest of TensorSpecs of the outputs, as precise as is known."""
        if self._declared_outputs is not None:
            return self._declared_outputs
        if self._finished or self._output_structure is not None:
            assert self._body is not None
            specs = [signature.spec_of(tensor) for tensor in self._body.outputs]
            return tf.nest.pack_sequence_as(self._output_structure, specs)
        return _ASSUMED_OUTPUT

    def fitting(self, args: tuple[Any, ...], rows: bool) -> list[tf.Tensor] | None:
        """The arguments of a call, flat, if it is plain that they fit: eager tensors like the inputs."""
        if rows not in self._forms:
            if not self._finished:
                return None
            self._forms[rows] = signature.forms(self.inputs, rows)
        wanted = self._forms[rows]
        return None if wanted is None else signature.fitting(args, wanted)

    def body_outputs(self) -> Any:
        """The nest of TensorSpecs of what the body gives, whatever was declared."""
        specs = [signature.spec_of(tensor) for tensor in self.finished_body().outputs]
        return tf.nest.pack_sequence_as(self._output_structure, specs)

    def note_assumed_call(self) -> None:
        """A call was made whose outputs had to be assumed."""
        if self._declared_outputs is not None or self._output_structure is not None:
            return
        if self._body is None:
            raise DefinitionError(
                f"SubGraph '{self.name}' is called before it has a body",
                where=origin.here(),
                next_step="declare inputs= and outputs= to call it before its body exists",
            )
        self._assumed_call = self._assumed_call or origin.here()

    @property
    def is_finished(self) -> bool:
        """Whether the body is complete."""
        return self._finished

    def finished_body(self) -> BodyGraph:
        """The body.

        Raises:
            DefinitionError: it is not complete.
        """
        if not self._finished or self._body is None:
            raise DefinitionError(
                f"SubGraph '{self.name}' was declared and called, but its body was never defined",
                where=origin.here(),
                next_step=f"define it first: `with {self.name}: ...`",
            )
        return self._body

    def differentiable_inputs(self) -> list[int]:
        """Positions of the flat inputs that gradients flow to."""
        return [i for i, spec in enumerate(tf.nest.flatten(self.inputs)) if is_differentiable(spec)]

    def differentiable_outputs(self) -> list[int]:
        """Positions of the flat outputs that gradients come from."""
        return [i for i, spec in enumerate(tf.nest.flatten(self.outputs)) if is_differentiable(spec)]

    def begin_generated(self, body: Any) -> Any:
        """Takes a generated body in place of a `with` block, and gives it the declared inputs."""
        self._body = body
        self._output_structure = tf.nest.map_structure(lambda spec: 0, self._declared_outputs)
        for spec in self._flat_inputs or []:
            with body.as_default():
                placeholder = tf.compat.v1.placeholder(spec.dtype, spec.shape)
            body.inputs.append(placeholder)
            self.placeholders.append(placeholder)
        return body

    def finish_generated(self) -> None:
        """The generated body is complete."""
        self._finished = True

    def in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments in the order of the inputs; a declared dict or namedtuple is one argument."""
        inputs = self.inputs
        if named and isinstance(inputs, dict) and not args:
            return (named,)
        if isinstance(inputs, tf.TensorSpec):
            inputs = (inputs,)
        if not isinstance(inputs, tuple | list) or hasattr(inputs, "_fields"):
            return args
        if not named and len(args) == len(inputs):
            return args
        return signature.in_order(self.name, inputs, self._names_of(inputs), args, named)

    def _names_of(self, inputs: Any) -> list[str | None]:
        """A name for each input: as declared, else as `input` was told."""
        declared = [spec.name if isinstance(spec, tf.TensorSpec) else None for spec in inputs]
        told = self._input_names if len(self._input_names) == len(declared) else declared
        return [name or other for name, other in zip(declared, told, strict=True)]


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise DefinitionError(
            f"{option} cannot be {value!r}",
            where=origin.here(),
            expected=" or ".join(map(repr, allowed)),
            next_step=did_you_mean(value, allowed),
        )
    return value


def _as_tensor(subgraph: Definition, leaf: Any) -> tf.Tensor:
    try:
        return tf.identity(tf.convert_to_tensor(leaf))
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"{subgraph.name}: the output cannot be converted to a tensor", where=origin.here(), found=str(error)
        ) from None
