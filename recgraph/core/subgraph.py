"""SubGraph: the unit of recursion (thesis, 5.3.1)."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import weakref
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import (
    branches,
    breadth,
    engines,
    gradient,
    invoke,
    listing,
    origin,
    program,
    pullback,
    signature,
    vectorizing,
)
from recgraph.core.body import BodyGraph
from recgraph.core.environment import is_differentiable
from recgraph.errors import DefinitionError, GradientError, SignatureError

_identities = itertools.count()
_by_identity: weakref.WeakValueDictionary[str, SubGraph] = weakref.WeakValueDictionary()

DEFAULT_MAX_DEPTH = 1_000_000

# The thesis's listing declares no outputs; a recursive call in it gives one tensor like this.
_ASSUMED_OUTPUT = tf.TensorSpec(None, tf.float32)


class SubGraph:
    """A graph function that may call itself.

    Define it once, in a `with` block, and call it like a function: eagerly, in a `tf.function`, under a
    `tf.GradientTape`, in a `tf.data` map, in a session.

    Args:
        name: shown in listings, errors and pictures.
        inputs: a nest of `tf.TensorSpec`. If given together with `outputs`, the SubGraph may be called before its body
            exists (mutual recursion). If None, the calls of `input` define the inputs.
        outputs: a nest of `tf.TensorSpec` that describes the result of a call. Needed if the body makes a call before
            it sets its output; without it, such a call is assumed to return one float32 tensor of unknown shape.
        engine: "parallel" runs the operations of every invocation on TensorFlow's threads, "batched" runs invocations
            at the same place as rows of one batch, "auto" measures which is faster. Results differ by rounding at most.
        gradient: "cache" keeps all activations that the gradient needs. "recompute" keeps only arguments and the
            results of calls, branches and loops, and runs the other operations of a body again for the gradient.
        max_depth: how deep invocations may nest (default: 1,000,000). A deeper recursion fails with
            `tf.errors.ResourceExhaustedError`.

    Raises:
        DefinitionError: an option has an invalid value.
        SignatureError: `inputs` or `outputs` contain anything but TensorSpecs.

    Example:
        >>> with SubGraph("factorial", outputs=tf.TensorSpec([], tf.int64)) as factorial:
        ...     n = factorial.input(tf.int64)
        ...     factorial.output(tf.cond(n < 2, lambda: tf.constant(1, tf.int64), lambda: n * factorial(n - 1)))
        >>> int(factorial(10))
        3628800

    Source: thesis, section 5.3; Jeong et al., EuroSys 2018.
    """

    autograph_info__ = None  # AutoGraph calls an object with this mark as it is, in place of rewriting its `__call__`

    def __init__(
        self,
        name: str | None = None,
        inputs: Any = None,
        outputs: Any = None,
        engine: str = "auto",
        gradient: str = "cache",
        max_depth: int | None = None,
    ) -> None:
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
        self._lock = threading.RLock()
        self._derivative: gradient_module.Derivative | None = None
        self._pullback: tuple[SubGraph, list[tf.Tensor]] | None = None
        self._programs: dict[tuple[bool, bool], program.Program] = {}
        self.followed: dict[Any, Any] = {}  # functions that make eager calls which accumulators follow
        _by_identity[self.identity] = self

    # Definition.

    def __enter__(self) -> SubGraph:
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
            explained = branches.explain(self.name, error, trace)
            if explained is not None:
                raise explained from error
            return
        self._body.control_outputs.extend(self._control.ops_which_must_run)
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
            dtype: of the input.
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
        spec = tf.TensorSpec(shape, dtype)
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
    def output(self, value: Any, check: bool = True) -> None:
        """Sets the result of the body, which completes the definition.

        Args:
            value: a nest of tensors, or of values that can be converted to tensors.
            check: whether the result must match the declared outputs.

        Raises:
            DefinitionError: called outside the `with` block, or a second time.
            SignatureError: the result does not match the declared outputs, or what an earlier recursive call was
                assumed to return.
        """
        body = self._open_body("output")
        if self._output_structure is not None:
            raise DefinitionError(f"{self.name}: output() was called twice", where=origin.here())
        tensors = tf.nest.map_structure(lambda leaf: self._control.mark_as_return(_as_tensor(self, leaf)), value)
        if check:
            self._check_outputs(tensors)
        self._output_structure = tf.nest.map_structure(lambda leaf: 0, tensors)
        body.outputs = tf.nest.flatten(tensors)

    def _open_body(self, what: str) -> BodyGraph:
        if self._body is None or self._exits is None:
            raise DefinitionError(
                f"{self.name}.{what}() must be called inside `with {self.name}:`",
                where=origin.here(),
            )
        return self._body

    def _check_outputs(self, tensors: Any) -> None:
        actual = [signature.spec_of(tensor) for tensor in tf.nest.flatten(tensors)]
        if self._declared_outputs is not None:
            expected, why = self._declared_outputs, "the outputs that were declared"
        elif self._assumed_call is not None:
            expected, why = _ASSUMED_OUTPUT, f"what the call at {self._assumed_call} was assumed to return"
        else:
            return
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

    # Calls.

    @tf.autograph.experimental.do_not_convert
    def __call__(self, *args: Any, name: str | None = None, **named: Any) -> Any:
        """Makes one invocation.

        Args:
            *args: values for the inputs, in order, with the dtypes and static shapes of the inputs.
            name: the label of this call site in call paths; by default the first name in the first argument.
            **named: values by input name; an input called `name` can only be given by position.

        Returns:
            The outputs: a nest of tensors, as declared or as given to `output`.

        Raises:
            SignatureError: number, names, structure, dtype or static shape of the arguments do not match the inputs.
            tf.errors.OpError: an operation of a body failed; the message has the operation, its line and the call path.
        """
        return invoke.call(self, self._in_order(args, named), name, rows=False)

    @tf.autograph.experimental.do_not_convert
    def map(self, *args: Any, name: str | None = None, **named: Any) -> Any:
        """Starts one invocation per row of the arguments, all at once.

        Args:
            *args: the arguments of a call, each with one more leading dimension `[rows, ...]`, equal for all.
            name: the label of this call site in call paths and pictures.
            **named: arguments by input name.

        Returns:
            The outputs of the invocations, stacked: a nest of tensors `[rows, ...]`.

        Raises:
            SignatureError: the arguments do not match the inputs.
            tf.errors.OpError: an invocation failed; the message has the operation, its line and the call path.
        """
        return invoke.call(self, self._in_order(args, named), name, rows=True)

    def _in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
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

    # Differentiation and linking.

    def differentiable_inputs(self) -> list[int]:
        """Positions of the flat inputs that gradients flow to."""
        return [i for i, spec in enumerate(tf.nest.flatten(self.inputs)) if is_differentiable(spec)]

    def differentiable_outputs(self) -> list[int]:
        """Positions of the flat outputs that gradients come from."""
        return [i for i, spec in enumerate(tf.nest.flatten(self.outputs)) if is_differentiable(spec)]

    def derivative(self) -> gradient_module.Derivative:
        """The gradient of the body, made at the first use.

        Raises:
            GradientError: an operation of the body has none.
        """
        with self._lock:
            if self._derivative is None:
                self._derivative = self._differentiate()
            return self._derivative

    def _differentiate(self) -> gradient_module.Derivative:
        body, recompute = self.finished_body(), self.gradient == "recompute"
        if recompute:
            invoke.check_recomputable(self, "gradient='recompute'")
        targets, seeds = [self.placeholders[i] for i in self.differentiable_inputs()], self.differentiable_outputs()
        try:
            with tf_private.without_recording():
                derivative = gradient_module.differentiate(body, targets, seeds, body.environment, recompute)
        except LookupError as error:
            raise GradientError(
                f"SubGraph '{self.name}' cannot be differentiated",
                found=str(error),
                next_step="use an operation that has a gradient, or apply tf.stop_gradient to its inputs",
            ) from error
        gradient_module.set_outputs(derivative, targets)
        return derivative

    def pullback(self) -> tuple[SubGraph, list[tf.Tensor]]:
        """The gradient as a SubGraph of tensors alone, made at the first use, and the captures it has gradients for.

        Raises:
            GradientError: an operation of the body has no gradient.
            DefinitionError: running the body again would not do the same again.
        """
        with self._lock:
            if self._pullback is None:
                invoke.check_recomputable(self, "a second derivative")
                outers = pullback.outers_of(self)
                inputs, outputs = pullback.declare(self, outers)
                made = SubGraph(f"{self.name}_pullback", inputs, outputs, max_depth=self.max_depth)
                self._pullback = made, outers  # declared before it is defined: the recursion calls it
                try:
                    with tf_private.without_recording():
                        body = made._begin_generated(pullback.PullbackBody(made.name, self.finished_body()))
                        pullback.fill(self, body, made.placeholders, outers)
                except BaseException:
                    self._pullback = None
                    raise
                made._finished = True
            return self._pullback

    def _begin_generated(self, body: Any) -> Any:
        """Takes a generated body in place of a `with` block, and gives it the declared inputs."""
        self._body = body
        self._output_structure = tf.nest.map_structure(lambda spec: 0, self._declared_outputs)
        for spec in self._flat_inputs or []:
            with body.as_default():
                placeholder = tf.compat.v1.placeholder(spec.dtype, spec.shape)
            body.inputs.append(placeholder)
            self.placeholders.append(placeholder)
        return body

    def program(self, gradient: bool, batched: bool | None = None) -> program.Program:
        """The linked program, with or without gradients and the batched engine; linked at the first use."""
        key = gradient, self.engine == "batched" if batched is None else batched
        with self._lock:
            if key not in self._programs:
                with tf_private.without_recording():
                    self._programs[key] = program.link(self, *key)
            return self._programs[key]

    def may_be_batched(self, rows: bool) -> bool:
        """Whether the batched engine may run a call from outside: a call of `map`, or a single one."""
        return self.engine == "batched" or (self.engine == "auto" and (rows or self._is_wide))

    @functools.cached_property
    def _is_wide(self) -> bool:
        return breadth.is_wide(list(program.reachable(self)))

    def explain(self) -> str:
        """Explains how calls run and why: the plan of the batched engine, what it cannot batch, and measured costs.

        For each block of operations that has run, it shows its share of the time, how often it ran, and for how many
        invocations. With engine "auto" it also shows the costs by which the engine is chosen.

        Returns:
            Text of several lines.
        """
        linked = [p for p in self._programs.values() if p.batched]
        if self.engine != "parallel" and not linked:
            linked = [self.program(gradient=False, batched=True)]
        return engines.explain(self.engine, self.may_be_batched(rows=False), linked)

    def report(self) -> str:
        """Reports what TensorFlow's graph optimizer removed from the body, per function of the program.

        Returns:
            Text of several lines.
        """
        return str(self.program(gradient=any(gradient for gradient, _ in self._programs)).report)

    def __repr__(self) -> str:
        return f"<SubGraph {listing.signature_of(self)}>"

    def __str__(self) -> str:
        return listing.of_subgraph(self)


gradient_module = gradient
vectorizing.register()


def by_identity(identity: str) -> SubGraph | None:
    """The SubGraph with this identity, if it is still in use."""
    return _by_identity.get(identity)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise DefinitionError(
            f"{option} cannot be {value!r}", where=origin.here(), expected=" or ".join(map(repr, allowed))
        )
    return value


def _as_tensor(subgraph: SubGraph, leaf: Any) -> tf.Tensor:
    try:
        return tf.identity(tf.convert_to_tensor(leaf))
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"{subgraph.name}: the output cannot be converted to a tensor", where=origin.here(), found=str(error)
        ) from None
