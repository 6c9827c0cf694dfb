"""SubGraph: the unit of recursion (thesis, 5.3.1)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph.core import body_rewrites, engines, invoke, invoke_gradient, listing, program, vectorizing
from recgraph.core.definition import Definition
from recgraph.core.ragged import RaggedCalls, is_ragged


class SubGraph(Definition):
    """A graph function that may call itself.

    Define it once, in a `with` block, and call it like a function: eagerly, in a `tf.function`, under a
    `tf.GradientTape`, in a `tf.data` map, in a session.

    Each call is an invocation of its own, as in Python, unless it is known that another one gives the same: see
    `memoize`, and docs/dynamic_programming.md for recursions that need no such option. Over a tree every node runs
    once. Over a graph whose nodes share children a node runs once for each path that leads to it otherwise, and there
    may be exponentially many: 24 nodes of which each calls the two before it make 46,368 leaves.

    Args:
        name: shown in listings, errors and pictures.
        inputs: a nest of `tf.TensorSpec`. If given together with `outputs`, the SubGraph may be called before its body
            exists (mutual recursion). If None, the calls of `input` define the inputs.
        outputs: a nest of `tf.TensorSpec` that describes the result of a call. Needed if the body makes a call before
            it sets its output; without it, such a call is assumed to return one float32 tensor of unknown shape.
        engine: "parallel" runs the operations of every invocation on TensorFlow's threads, "batched" runs invocations
            at the same place as rows of one batch, "auto" measures which is faster. "levels" does what "batched" does
            in TensorFlow's own operations, where the structure is known before the values (`recgraph.levels`). Results
            differ by rounding at most.
        gradient: "cache" keeps all activations that the gradient needs. "recompute" keeps only arguments and the
            results of calls, branches and loops, and runs the other operations of a body again for the gradient.
        max_depth: how deep invocations may nest (default: 1,000,000). A deeper recursion fails with
            `tf.errors.ResourceExhaustedError`.
        optimize: whether bodies may be rewritten by proven substitutions before they run: products of one input by
            several captured matrices become one product, for instance. Results differ by rounding at most. None, the
            default, asks the environment variable `RECGRAPH_OPTIMIZE`.
        memoize: whether calls that are given the same are run once: equal integers, booleans and strings, and otherwise
            the very same tensor, handed on. Results are kept until the call from outside ends. The program is run by
            the parallel engine. A body that has effects, draws random numbers or runs Python is an error.

    Raises:
        DefinitionError: an option has an invalid value.
        SignatureError: `inputs` or `outputs` contain anything but TensorSpecs.

    Examples:
        >>> with SubGraph("factorial", outputs=tf.TensorSpec([], tf.int64)) as factorial:
        ...     n = factorial.input(tf.int64)
        ...     factorial.output(tf.cond(n < 2, lambda: tf.constant(1, tf.int64), lambda: n * factorial(n - 1)))
        >>> int(factorial(10))
        3628800

    Source: thesis, section 5.3; Jeong et al., EuroSys 2018.
    """

    autograph_info__ = None  # AutoGraph calls an object with this mark as it is, in place of rewriting its `__call__`

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
        return invoke.call(self, self.in_order(args, named), name, rows=False)

    @tf.autograph.experimental.do_not_convert
    def map(self, *args: Any, name: str | None = None, ragged: bool | None = None, **named: Any) -> Any:
        """Starts one invocation per row of the arguments, all at once.

        Args:
            *args: the arguments of a call, each with one more leading dimension `[rows, ...]`, equal for all. Where the
                first dimension of an input is None, a ragged tensor may have rows of different lengths.
            name: the label of this call site in call paths and pictures.
            ragged: whether results may differ in length from row to row: those whose first dimension is None are
                ragged tensors then. By default they are if an argument is.
            **named: arguments by input name; an input called `name` or `ragged` can only be given by position.

        Returns:
            The outputs of the invocations, stacked: a nest of tensors `[rows, ...]`, and of ragged tensors.

        Raises:
            SignatureError: the arguments do not match the inputs.
            tf.errors.OpError: an invocation failed; the message has the operation, its line and the call path.
        """
        given = self.in_order(args, named)
        if ragged or is_ragged(given):
            return self.map_ragged(given, ragged is not False, name=name)
        return invoke.call(self, given, name, rows=True)

    def map_ragged(self, args: Any, outputs: bool, is_batch_of_one: bool = False, name: str | None = None) -> Any:
        """`map` where rows of arguments or results may differ in length; see `RaggedCalls`."""
        self.note_assumed_call()
        flat = invoke.arguments(self, args, rows=True)
        key = (tuple(isinstance(each, tf.RaggedTensor) for each in flat), outputs, is_batch_of_one)
        with self.lock:
            if key not in self.ragged_calls:
                self.ragged_calls[key] = RaggedCalls(SubGraph, self, *key)
        results = self.ragged_calls[key](flat, name)
        is_one = isinstance(self.outputs, tf.TensorSpec)
        return results[0] if is_one else tf.nest.pack_sequence_as(self.outputs, results)

    def program(self, gradient: bool, batched: bool | None = None) -> program.Program:
        """The linked program, with or without gradients and the batched engine; linked at the first use."""
        return program.of(body_rewrites.prepared(self), gradient, batched)

    def may_be_batched(self, rows: bool) -> bool:
        """Whether the batched engine may run a call from outside: a call of `map`, or a single one."""
        return program.may_be_batched(self, rows)

    def explain(self) -> str:
        """Explains how calls run and why: the plan of the batched engine, what it cannot batch, measured costs, and
        what substitutions have made of the bodies.

        For each block of operations that has run, it shows its share of the time, how often it ran, and for how many
        invocations. With engine "auto" it also shows the costs by which the engine is chosen.

        Returns:
            Text of several lines.
        """
        prepared = body_rewrites.prepared(self)
        memoizes = any(member.memoize for member in program.reachable(prepared))
        linked = [p for p in list(prepared.programs.values()) if p.batched or memoizes]
        if self.engine != "parallel" and not linked:
            linked = [self.program(gradient=False, batched=True)]
        text = engines.explain(self.engine, self.may_be_batched(rows=False), linked)
        return "\n".join([text, *self.rewritings])

    def report(self) -> str:
        """Reports what TensorFlow's graph optimizer removed from the body, per function of the program.

        Returns:
            Text of several lines.
        """
        linked = list(body_rewrites.prepared(self).programs)
        return str(self.program(gradient=any(gradient for gradient, *_ in linked)).report)

    def __repr__(self) -> str:
        return f"<SubGraph {listing.signature_of(self)}>"

    def __str__(self) -> str:
        return listing.of_subgraph(self)


invoke_gradient.register()
vectorizing.register()
