"""`rg.keras.SubGraphLayer`: a recursive function, written for one example, as a Keras layer over batches."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import keras
import tensorflow as tf

from recgraph import tf_private
from recgraph.core import invoke, symbolic
from recgraph.core.decorator import RecursiveFunction
from recgraph.core.subgraph import SubGraph
from recgraph.errors import DefinitionError
from recgraph.keras import described, finished, returned
from recgraph.keras.eager import Compute, Tracing
from recgraph.keras.seeds import Body, Nest, PathSeeds, Seeds, along_paths
from recgraph.keras.tracing import BodyTrace, Trial


@keras.saving.register_keras_serializable("recgraph")
class SubGraphLayer(keras.layers.Layer):
    """A recursive function as a layer.

    Write `body` for one example, as a batch of one: each tensor in it has a leading dimension of 1, so Keras layers
    work as they are. `recurse` makes the recursive call. The layer starts one invocation for each example of a batch,
    and recgraph runs them in parallel or batched.

    A finished `rg.SubGraph` may be given in place of a body: the layer runs it for each example, on the example's
    tensors `[...]` as its inputs say, and the variables that it reads are the layer's.

    Outside of graphs, a body is traced again when inputs have other dtypes or ranks, when the layer is training or no
    longer is, and when attributes of the layer, of layers in it, of their classes or of objects that are attributes, or
    globals and names of enclosing functions that it reads, are others; else the Python in it does not run.

    Keras layers in the body are built, trained and saved with the layer, know whether it is training, and may add
    losses: the loss of a call is the sum over its invocations. Plain `if`, `for` and `while` on tensors work.

    Args:
        function: called in place of `body`, with the same arguments: a Keras layer, or a function without variables of
            its own, which `keras.saving.register_keras_serializable` lets be saved. Or an `rg.SubGraph`: it has the
            next four options itself, computes in its own dtypes, and is saved by name, as `custom_objects` are.
        output_size: what an invocation returns, a nest of integers, as the `state_size` of an RNN's cell, or of
            `tf.TensorSpec` without the leading 1, for other shapes and dtypes than `[1, size]` and the layer's. Where
            its first dimension is None, results may differ in length. A subclass may set it as an attribute.
        engine: as of `rg.SubGraph`. A subclass may set it, and the next two, as attributes.
        gradient: as of `rg.SubGraph`.
        max_depth: as of `rg.SubGraph`.
        **options: of every Keras layer: `name`, `dtype`, `trainable`.

    Raises:
        DefinitionError: a SubGraph is not finished, or is given with options that it has itself.

    Examples:
        >>> import tensorflow as tf, recgraph as rg
        >>> class Halve(rg.keras.SubGraphLayer):
        ...     output_size = 1
        ...
        ...     def body(self, x, recurse):
        ...         return tf.cond(x[0, 0] < 1.0, lambda: x, lambda: recurse(x / 2.0))
        >>> Halve()(tf.constant([[5.0], [0.5], [9.0]])).numpy().ravel().tolist()
        [0.625, 0.5, 0.5625]
    """

    output_size: Any = None
    engine: str = "auto"
    gradient: str = "cache"
    max_depth: int | None = None
    # Leading dimensions of the inputs that differ from batch to batch.
    open_dimensions: ClassVar[int] = 1
    layers = described.LayersInside()

    def __init__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        output_size: Any = None,
        engine: str | None = None,
        gradient: str | None = None,
        max_depth: int | None = None,
        **options: Any,
    ) -> None:
        is_finished = isinstance(function, SubGraph)
        super().__init__(**({"autocast": False} | options if is_finished else options))
        self.supports_jit = False  # XLA must know how often a body runs
        self.function = function
        given = {"output_size": output_size, "engine": engine, "gradient": gradient, "max_depth": max_depth}
        self._given = {name: value for name, value in given.items() if value is not None}
        for name, value in self._given.items():
            setattr(self, name, value)
        if isinstance(function, RecursiveFunction):
            raise DefinitionError(
                f"layer '{self.name}' is given a function under @rg.subgraph, which has a SubGraph for each signature",
                next_step="call the function once, and give one of its `subgraphs`",
            )
        if isinstance(function, SubGraph):
            if self._given:
                raise DefinitionError(
                    f"layer '{self.name}' is given {', '.join(self._given)}, which SubGraph '{function.name}' has "
                    "itself",
                    next_step="give it to the SubGraph",
                )
            self.adopted = finished.variables_of(function)
        self._tracing = Tracing(self.open_dimensions)
        self._inputs: Any = None  # shapes and dtypes, once the layers in the body have been built for them

    def body(self, inputs: Nest, recurse: Callable[[Nest], Nest]) -> Nest:
        """What one invocation computes.

        Args:
            inputs: an example of the layer's inputs, a nest of tensors `[1, ...]`.
            recurse: `recurse(inputs)` makes an invocation on such a nest, and returns what this returns.

        Returns:
            A nest of tensors `[1, ...]`, as `output_size` says.
        """
        return self.called(inputs, recurse=recurse)

    def called(self, inputs: Nest, **named: Any) -> Nest:
        """What the function gives that the layer was made with."""
        if self.function is None:
            raise DefinitionError(f"layer '{self.name}' has neither a method for its recursion nor a function")
        function = self.function
        return (function if isinstance(function, keras.layers.Layer) else converted(function))(inputs, **named)

    def call(self, inputs: Nest) -> Nest:
        """The results for a batch.

        Args:
            inputs: a nest of tensors `[B, ...]`, ragged where the first dimension differs from example to example.

        Returns:
            What `body` returns, with `B` in place of 1; ragged where `output_size` has None as the first dimension.
        """
        self.note_inputs(inputs)
        if isinstance(self.function, SubGraph):
            return self.function.map(*finished.arguments(self.function, inputs))
        body = self.body
        return self.traced(lambda rows: self._recursion(converted(body), rows, None, body, rows), inputs)

    def traced(self, compute: Compute, inputs: Nest) -> Nest:
        """The results of what `call` computes; outside of graphs, by a function, traced when something is new."""
        try:
            results, loss = self._tracing(self, compute, inputs)
        except tf.errors.OpError as error:
            if not tf_private.executing_eagerly():
                raise
            text = self.told(tf_private.plain_message(error), inputs)
            raise tf_private.with_message(error, text) from None
        if loss is not None:
            self.add_loss(loss)
        return results

    def told(self, text: str, inputs: Nest) -> str:
        """What an error says when the layer runs outside of graphs; a subclass may put it in terms of the inputs."""
        return text

    def recursion(self, body: Body, rows: Nest, seeds: Seeds | None = None) -> Nest:
        """Runs a body for each row of a nest of tensors; for a `call` that does more than that. It is traced each time.

        Args:
            body: `body(arguments, recurse)`, where arguments are a nest like `rows` of tensors `[1, ...]`.
            rows: a nest of tensors `[B, ...]`.
            seeds: where random numbers come from; by default each call path has its own.

        Returns:
            The results, a nest of tensors `[B, ...]`.

        Raises:
            DefinitionError: there is no `output_size`; the body adds a loss in a branch or loop; a function uses
                variables that the layer does not know.
        """
        results, loss = self._recursion(body, rows, seeds, body)
        if loss is not None:
            self.add_loss(loss)
        return results

    def _recursion(
        self,
        body: Body,
        rows: Nest,
        seeds: Seeds | None,
        written: Callable[..., Any],
        inputs: Nest = None,
        counted: tf.Tensor | None = None,
    ) -> tuple[Nest, tf.Tensor | None]:
        """Results, and the sum of the losses of those rows, bool `[B]`, that count; by default all do.

        `written` is the user's function of which `body` was made; `inputs` are those of the layer, where they and its
        state decide what the body does.
        """
        trial = self._tried(body, rows, written, inputs)
        if trial.draws and seeds is None and not trial.calls_in_loop:
            body, rows = along_paths(body, rows)
            seeds = PathSeeds()
        if self._only_specs_count(rows):
            return self._for_specs(trial, rows)
        trace = BodyTrace(self.name, body, rows, self._outputs())
        options = {"engine": self.engine, "gradient": self.gradient, "max_depth": self.max_depth}
        subgraph = trace.subgraph(trial, seeds, **options)
        self._check_variables(subgraph)
        self._tracing.latest = subgraph
        results, loss = _mapped(subgraph, tf.nest.flatten(rows), counted is None), None
        if trial.has_losses:
            results, losses = results
            loss = tf.reduce_sum(losses if counted is None else tf.where(counted, losses, 0.0))
        return tf.nest.map_structure(lambda tensor: tensor if _is_ragged(tensor) else tensor[:, 0], results), loss

    def _tried(self, body: Body, rows: Nest, written: Callable[..., Any], inputs: Nest) -> Trial:
        """What the body does when it is tried out."""
        trace = BodyTrace(self.name, body, rows, self._outputs())

        def make() -> Trial:
            return trace.tried(lambda results: returned.check(self, self._outputs(), results, written))

        return make() if inputs is None else self._tracing.trial(self, inputs, make, self._only_specs_count(rows))

    def _only_specs_count(self, rows: Nest) -> bool:
        """Whether Keras asks for the shapes and dtypes of results, which `output_size` says, and nobody for more."""
        if self._tracing.is_looked_at or tf_private.executing_eagerly():
            return False
        may_be_ragged = any(spec.shape[1:2] == [None] for spec in tf.nest.flatten(self._outputs()))
        ragged = may_be_ragged or any(map(_is_ragged, tf.nest.flatten(rows)))
        return not ragged and tf_private.asks_for_specs_only(tf_private.current_graph())

    def _for_specs(self, trial: Trial, rows: Nest) -> tuple[Nest, tf.Tensor | None]:
        """Results and losses of a recursion that never runs: it need not be traced."""
        flat, specs = tf.nest.flatten(rows), tf.nest.flatten(self._outputs())
        common = {
            "args": flat,
            "Tout": [spec.dtype for spec in specs],
            "output_shapes": [flat[0].shape[:1].concatenate(spec.shape[1:]) for spec in specs],
            "map": True,
        }
        read = [tf.convert_to_tensor(variable.value) for variable in self.variables]
        results = invoke.for_specs(read, self.name, common)
        return tf.nest.pack_sequence_as(self._outputs(), results), tf.zeros([]) if trial.has_losses else None

    def recgraph_subgraph(self) -> SubGraph:
        """The SubGraph that runs: what the body became when the layer was traced last. `rg.draw` draws it.

        Raises:
            DefinitionError: the layer has not been called.
        """
        made = self.function if isinstance(self.function, SubGraph) else self._tracing.latest
        if made is None and self._inputs is not None:
            with self._tracing.looked_at():
                self.compute_output_spec(_symbolic(self._inputs))
            made = self._tracing.latest
        if made is None:
            raise DefinitionError(
                f"layer '{self.name}' has not been called, so its body is not known yet",
                next_step="call it on a batch first",
            )
        return made

    def explain(self) -> str:
        """Explains what the layer holds, and how its invocations run and why.

        Returns:
            Text of several lines: the layers in it with their parameters, then what `SubGraph.explain` says.

        Raises:
            DefinitionError: the layer has not been called.
        """
        return "\n".join([*described.lines(self), self.recgraph_subgraph().explain()])

    def __dir__(self) -> Iterable[str]:
        """The names of attributes without `layers`: Keras saves what it finds here, each layer under its first name."""
        return [name for name in super().__dir__() if name != "layers" or name in vars(self)]

    def note_inputs(self, inputs: Nest) -> None:
        """Takes note of what the layers in the body are built for, so that loading can build them, too."""
        self._inputs = self._inputs or tf.nest.map_structure(_as_json, inputs)

    def _outputs(self) -> Nest:
        """The specs of what an invocation returns."""
        if self.output_size is None:
            raise DefinitionError(
                f"layer '{self.name}' does not say what an invocation returns",
                next_step="set output_size, for instance self.output_size = units, or (units, units) for two tensors",
            )
        return tf.nest.map_structure(
            lambda size: (
                tf.TensorSpec([1, *size.shape], size.dtype)
                if isinstance(size, tf.TensorSpec)
                else tf.TensorSpec([1, size], self.compute_dtype)
            ),
            self.output_size,
        )

    def _check_variables(self, subgraph: SubGraph) -> None:
        """What a function closes over would be neither trained nor saved."""
        if self.function is None or isinstance(self.function, keras.layers.Layer):
            return
        variables = [tensor for tensor in subgraph.finished_body().captured if tensor.dtype == tf.resource]
        if variables:
            raise DefinitionError(
                f"the function of layer '{self.name}' uses variables, which the layer could not train or save",
                found=f"{len(variables)} variables that it closes over",
                next_step="write the function as the `call` of a Keras layer, or as a method of a subclass",
            )

    def get_config(self) -> dict[str, Any]:
        """What the layer was made with; what a subclass sets itself is for its own `get_config`."""
        config = {**super().get_config(), **self._given}
        if isinstance(self.function, SubGraph):
            return {**config, "function": finished.described(self.function)}
        if self.function is not None:
            config["function"] = self.function
        for name in config.keys() & {"function", "output_size"}:
            config[name] = keras.saving.serialize_keras_object(config[name])
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The layer that `get_config` describes."""
        config = dict(config)
        if finished.is_described(config.get("function")):
            return cls(finished.found(config.pop("function")), **config)
        for name in config.keys() & {"function", "output_size"}:
            config[name] = keras.saving.deserialize_keras_object(config[name])
        return cls(**config)

    def get_build_config(self) -> dict[str, Any]:
        """Shapes and dtypes of the inputs."""
        return {} if self._inputs is None else {"inputs": self._inputs}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Builds the layers in the body."""
        if config.get("inputs") is not None:
            self.compute_output_spec(_symbolic(config["inputs"]))
            self.built = True


def _is_ragged(tensor: Any) -> bool:
    return isinstance(tensor, tf.RaggedTensor)


def _mapped(subgraph: SubGraph, rows: list[Any], may_be_ragged: bool) -> Nest:
    """The results for rows that become batches of one."""
    given = [row if _is_ragged(row) else row[:, None] for row in rows]
    shapes = [spec.shape for spec in tf.nest.flatten(subgraph.outputs)] if may_be_ragged else []
    if any(map(_is_ragged, rows)) or any((shape.rank or 0) > 1 and shape[1] is None for shape in shapes):
        return subgraph.map_ragged(given, outputs=True, is_batch_of_one=True)
    return subgraph.map(*given)


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function or method of the user's with `if`, `for` and `while` on tensors; as it is where it has no source.

    Of one under a decorator both are: the decorator may do more than to call it.
    """
    outer = getattr(function, "__func__", function)
    inner = inspect.unwrap(outer)
    if inner.__module__.startswith("recgraph.") or not isinstance(outer, types.FunctionType):
        return function
    try:
        inspect.getsource(inner)
    except (OSError, TypeError):
        return function
    made = tf.autograph.to_graph(outer, recursive=outer is not inner)
    return functools.partial(
        _run, outer.__qualname__, made, *([function.__self__] if inspect.ismethod(function) else [])
    )


def _run(name: str, made: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls what AutoGraph has made of a user's function, and says in our words where a tensor has no value."""
    try:
        return made(*arguments, **named)
    except Exception as error:
        explained = symbolic.explain(name, error, error.__traceback__, made)
        if explained is None:
            raise
        raise explained from error


def _as_json(tensor: Any) -> dict[str, Any]:
    """A tensor of a batch as JSON can have it."""
    return {"shape": [None, *tensor.shape[1:]], "dtype": tensor.dtype.name}


def _symbolic(described: Any) -> Any:
    if isinstance(described, dict) and set(described) == {"shape", "dtype"}:
        return keras.KerasTensor(described["shape"], described["dtype"])
    if isinstance(described, dict):
        return {name: _symbolic(part) for name, part in described.items()}
    return type(described)(map(_symbolic, described))
