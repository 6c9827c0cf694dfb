"""`@rg.subgraph`: a recursive Python function as a SubGraph, its signature inferred."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, Protocol, TypeVar, overload

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import base_case, branches, listing, origin, signature, symbolic
from recgraph.core.subgraph import SubGraph
from recgraph.cpython import sources
from recgraph.errors import BranchError, DefinitionError, RecgraphError, SignatureError, SymbolicError

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_OPTIONS = frozenset(inspect.signature(SubGraph).parameters) - {"inputs"}
_METHODS = "_recgraph_methods"  # the attribute of an object that has its methods
_PLACE = "_recgraph_place"  # of an exception: the line of the body that raised it


class Recursive(Protocol[P, R_co]):
    """What a type checker knows of a function under `@subgraph`: its own parameters and result, and what was added."""

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R_co:
        """One invocation."""

    def map(self, *arguments: Any, **named: Any) -> Any:
        """Starts one invocation per row; see `SubGraph.map`."""

    @property
    def subgraphs(self) -> list[SubGraph]:
        """The SubGraphs that eager calls have created."""

    def __get__(self, instance: Any, owner: Any = None) -> Recursive[..., R_co]:
        """As a method of an object."""


@overload
def subgraph(function: Callable[P, R], **options: Any) -> Recursive[P, R]: ...


@overload
def subgraph(function: None = None, **options: Any) -> Callable[[Callable[P, R]], Recursive[P, R]]: ...


def subgraph(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Makes a recursive Python function a SubGraph.

    Plain `if`, `for` and `while` on tensors work (AutoGraph). The inputs are inferred from the arguments of the first
    call, and the outputs by tracing until the traced result matches what recursive calls were assumed to return. There
    is one SubGraph for each combination of dtypes and ranks of the arguments.

    Tracing runs the function's Python code more than once. If no assumption about a single tensor fits, the function is
    also run as plain Python, on zeros and then on the arguments, until a call returns without recursion, for at most
    five seconds; side effects such as assignments to variables then happen. With `outputs=`, or with specs as the
    annotation of what the function returns (`-> tf.TensorSpec([])`), nothing is inferred this way.

    Args:
        function: calls itself by name.
        **options: options of `SubGraph`: `name`, `outputs`, `engine`, `gradient`, `max_depth`, `optimize`,
            `memoize`.

    Returns:
        A callable with `map` (as of `SubGraph`) and `subgraphs`, the SubGraphs created so far. In a class it is a
        method, for which each object has SubGraphs of its own.

    Raises:
        DefinitionError: for an unknown option; on a call, if the outputs cannot be inferred, with what to declare.
        SignatureError: on a call, if the arguments do not match the function's parameters.

    Examples:
        >>> @subgraph
        ... def factorial(n):
        ...     if n < 2:
        ...         return tf.constant(1, tf.int64)
        ...     return n * factorial(n - 1)
        >>> int(factorial(tf.constant(10, tf.int64)))
        3628800
    """
    unknown = options.keys() - _OPTIONS
    if unknown:
        raise DefinitionError(
            f"@rg.subgraph has no option {', '.join(sorted(unknown))}",
            where=origin.here(),
            expected=", ".join(sorted(_OPTIONS)),
            next_step="leave inputs out: they are those of the first call" if "inputs" in unknown else "",
        )
    if function is None:
        return functools.partial(subgraph, **options)
    if not callable(function):
        raise DefinitionError(
            "@rg.subgraph is for a function",
            where=origin.here(),
            found=repr(function),
            next_step="write options by their names, as @rg.subgraph(outputs=...)",
        )
    return RecursiveFunction(function, options)


class _FurtherArgumentsError(BaseException):
    """A recursive call passes arguments that the call from outside leaves to their defaults."""

    def __init__(self, labels: set[str]) -> None:
        super().__init__()
        self.labels = labels


class _Methods:
    """Those of an object, by what its class has of them. No dictionary: a `tf.Module` looks into these."""

    def __init__(self) -> None:
        self.made: dict[RecursiveFunction, RecursiveFunction] = {}


class RecursiveFunction:
    """A Python function that is run as SubGraphs, one for each kind of arguments.

    Args:
        function: as it was written.
        options: of SubGraphs.
        method: what the class has and the object, where it is a method of one.
    """

    autograph_info__ = None  # as of SubGraph: AutoGraph leaves the object alone

    def __init__(
        self,
        function: Callable[..., Any],
        options: dict[str, Any],
        method: tuple[RecursiveFunction, Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        sources.keep(function)
        self._function = function
        self._method = method
        self._owner = () if method is None else (method[1],)
        self._passed: set[str] = set()  # parameters with defaults that recursive calls pass
        self._signature = inspect.signature(types.MethodType(function, method[1]) if method else function)
        self._options = {"name": getattr(function, "__name__", "function"), **_declared(function), **options}
        self._in_graphs: weakref.WeakKeyDictionary[Any, dict[Any, SubGraph]] = weakref.WeakKeyDictionary()
        self._eager: dict[Any, SubGraph] = {}
        self._defining = threading.local()
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: Any = None) -> RecursiveFunction:
        """The method of an object: each object has its own SubGraphs, which capture what its attributes hold."""
        if instance is None:
            return self
        try:
            methods = vars(instance).setdefault(_METHODS, _Methods())
        except TypeError:
            raise DefinitionError(
                f"'{self._options['name']}' is a method of {type(instance).__name__}, whose objects keep no SubGraphs",
                where=origin.here(),
                next_step="leave out __slots__, or add '__dict__' to them",
            ) from None
        if self not in methods.made:
            methods.made.setdefault(self, RecursiveFunction(self._function, self._options, (self, instance)))
        return methods.made[self]

    def __reduce__(self) -> Any:
        """By name, as functions are; a copy of an object has a method of its own."""
        return self._function.__qualname__ if self._method is None else (RecursiveFunction.__get__, self._method)

    @property
    def subgraphs(self) -> list[SubGraph]:
        """The SubGraphs that eager calls have created."""
        return list(self._eager.values())

    def __repr__(self) -> str:
        made = "".join(f", {listing.signature_of(subgraph)}" for subgraph in self.subgraphs)
        return f"<recursive function {self._options['name']!r}{made or ', not yet called'}>"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.subgraphs)) or repr(self)

    @tf.autograph.experimental.do_not_convert
    def __call__(self, *args: Any, name: str | None = None, **named: Any) -> Any:
        """Makes one invocation; see `SubGraph.__call__`. Arguments are bound as in a Python call."""
        if getattr(self._defining, "probing", False):
            base_case.check_depth()
            raise base_case.Reached(self._function(*self._owner, *args, **named))
        made, values = self._prepare(args, named, rows=False)
        return made(*values, name=name)

    @tf.autograph.experimental.do_not_convert
    def map(self, *args: Any, name: str | None = None, ragged: bool | None = None, **named: Any) -> Any:
        """Starts one invocation per row; see `SubGraph.map`."""
        if getattr(self._defining, "probing", False):
            args, named = tf.nest.map_structure(lambda rows: tf.convert_to_tensor(rows)[0], (args, named))
            return self(*args, **named)
        made, values = self._prepare(args, named, rows=True)
        return made.map(*values, name=name, ragged=ragged)

    def _prepare(self, args: tuple[Any, ...], named: dict[str, Any], rows: bool) -> tuple[SubGraph, tuple[Any, ...]]:
        """The SubGraph for a call, and the call's arguments in the order of its inputs."""
        given = self._bind(args, named)
        current: dict[str, Any] | None = getattr(self._defining, "arguments", None)
        if current is not None:
            return self._defining.subgraph, self._as_defined(given, current)
        with self._lock:
            while True:
                given = self._with_defaults(given, rows)
                try:
                    return self._for(given, rows), tuple(given.values())
                except _FurtherArgumentsError as error:
                    self._passed |= error.labels  # by recursive calls: then they are inputs, with defaults from outside

    def _for(self, given: dict[str, Any], rows: bool) -> SubGraph:
        labels = [re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9_]", "", label) or "input" for label in given]
        specs = [_specs(value, rows, label) for value, label in zip(given.values(), labels, strict=True)]
        key = f"{', '.join(given)}: {signature.describe(specs)}"
        known = self._known()
        if key not in known:
            known[key] = self._define(dict(zip(given, specs, strict=True)), given)
        return known[key]

    def _with_defaults(self, given: dict[str, Any], rows: bool) -> dict[str, Any]:
        """The arguments of a call from outside, with the defaults of what recursive calls pass."""
        if not self._passed - given.keys():
            return given
        complete = dict(given)
        for label, parameter in self._signature.parameters.items():
            if label in self._passed and label not in given and parameter.default is not inspect.Parameter.empty:
                default = tf.convert_to_tensor(parameter.default)
                complete[label] = _repeated(default, given) if rows else default
        order = {label: i for i, label in enumerate(self._signature.parameters)}
        return dict(sorted(complete.items(), key=lambda item: order.get(item[0], len(order))))

    def _bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Parameter -> argument, in the parameters' order; `*rest` gives `rest_0`, `rest_1`, ...

        Raises:
            SignatureError: the arguments do not fit the function's parameters.
        """
        try:
            bound = self._signature.bind(*args, **named).arguments
        except TypeError as error:
            raise SignatureError(
                f"{self._options['name']}: {error}",
                where=origin.here(),
                expected=f"{self._options['name']}{self._signature}",
            ) from None
        given: dict[str, Any] = {}
        for label, value in bound.items():
            kind = self._signature.parameters[label].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                given |= {f"{label}_{i}": part for i, part in enumerate(value)}
            elif kind is inspect.Parameter.VAR_KEYWORD:
                given |= value
            else:
                given[label] = value
        return given

    def _as_defined(self, given: dict[str, Any], defined: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments of a recursive call as the call that is being defined has them: what is left out has its default.

        Raises:
            SignatureError: `*rest` or `**named` are others than there.
        """
        parameters = self._signature.parameters
        further = {label for label in given if label not in defined}
        if further and all(label in parameters for label in further):
            raise _FurtherArgumentsError(further)
        if further or any(label not in given and label not in parameters for label in defined):
            raise SignatureError(
                f"{self._options['name']}: a recursive call has arguments of another structure than the outer call",
                where=origin.here(),
                found=", ".join(given),
                expected=", ".join(defined),
            )
        return tuple(given[label] if label in given else parameters[label].default for label in defined)

    def _known(self) -> dict[Any, SubGraph]:
        if tf_private.executing_eagerly():
            return self._eager
        return self._in_graphs.setdefault(tf.compat.v1.get_default_graph(), {})

    def _define(self, specs: dict[str, Any], args: dict[str, Any]) -> SubGraph:
        variables = inspect.getclosurevars(self._function)
        for value in [*variables.nonlocals.values(), *variables.globals.values()]:
            if value is self._function or getattr(value, "python_function", None) is self:
                raise self._calls_another(value)
        if "outputs" in self._options:
            try:
                return self._trace(specs, self._options["outputs"])
            except (tf.errors.OperatorNotAllowedInGraphError, SymbolicError) as error:
                if self._needs_source(error):
                    raise self._has_no_source(error) from error
                raise
        first_error: Exception | None = None
        failures: list[str] = []
        for guess in self._guesses(specs, args, failures):
            try:
                return self._sharpen(specs, self._settle(specs, guess))
            except Exception as error:  # a wrong guess can fail anywhere in the user's code
                if isinstance(error, RecgraphError) and not isinstance(error, BranchError | SymbolicError):
                    raise
                if self._needs_source(error):
                    raise self._has_no_source(error) from error
                first_error = first_error or error
        raise DefinitionError(
            f"the outputs of '{self._options['name']}' cannot be inferred",
            where=getattr(first_error, _PLACE, "") or getattr(first_error, "where", "") or origin.here(),
            found="; ".join([_told(first_error), *failures]),
            next_step="fix the error or, if only the inferred result of a recursive call is wrong, declare the "
            "outputs: @rg.subgraph(outputs=tf.TensorSpec(shape, dtype)), or a nest of specs",
        ) from first_error

    def _calls_another(self, value: Any) -> DefinitionError:
        """The function's own name is that of something else, such as of the undecorated function."""
        name = self._options["name"]
        other = "the undecorated function" if value is self._function else "a tf.function around it"
        return DefinitionError(
            f"'{name}' refers to {other} by its own name: a call of that would never end",
            where=origin.here(),
            next_step=f"write @rg.subgraph above `def {name}` and no other decorator above that, so that the name is "
            "that of the decorated function",
        )

    def _has_no_source(self, error: Exception) -> DefinitionError:
        name = self._options["name"]
        return DefinitionError(
            f"'{name}' uses Python's if, for or while on a tensor, and its source cannot be read to convert that",
            where=origin.of_traceback(_raised(error).__traceback__),
            found=sources.why_not(self._function),
            next_step=f"define '{name}' in a file or a cell, load it again where the file has changed, or use tf.cond "
            "and tf.while_loop in it",
        )

    def _guesses(self, specs: Any, args: dict[str, Any], failures: list[str]) -> Iterator[Any]:
        """What a recursive call might give: one tensor of a common dtype; else what the base case gives.

        Adds to `failures` why no base case was found.
        """
        inputs = tf.nest.flatten(specs)
        dtypes = [tf.float32, *(spec.dtype for spec in inputs), tf.int32, tf.int64, tf.float64, tf.bool, tf.string]
        for dtype in dict.fromkeys(dtypes):
            yield tf.TensorSpec(None, dtype)
        zeros = tf.nest.map_structure(_zeros, specs)
        yield from dict.fromkeys(inputs)
        for what, values in [("zeros", zeros), ("its arguments", args)]:
            try:
                found = self._base_case(values)
            except base_case.NotReachedError as error:  # the function cannot be run on these values
                failures.append(f"run as plain Python on {what}: {error}")
                continue
            yield found
            yield tf.nest.map_structure(lambda spec: tf.TensorSpec(None, spec.dtype), found)

    def _base_case(self, args: dict[str, Any]) -> Any:
        """The specs of the first value that the function returns without calling itself, run as plain Python."""
        self._defining.probing = True
        positional, named = self._arranged(args)
        try:
            return base_case.specs_of(functools.partial(self._function, *self._owner, **named), positional)
        finally:
            self._defining.probing = False

    def _settle(self, specs: Any, guess: Any) -> SubGraph:
        """Traces until what comes out is what recursive calls were taken to give."""
        for _ in range(8):
            made = self._trace(specs, guess, check=False)
            actual = tf.nest.map_structure(_without_name, made.body_outputs())
            if _same(guess, actual):
                return made
            guess = _merge(guess, actual)
        raise DefinitionError(f"the outputs of '{self._options['name']}' differ at every level of the recursion")

    def _sharpen(self, specs: Any, made: SubGraph) -> SubGraph:
        """Where the guess left a shape unknown: the shape that some branch gives, if the recursion keeps to it."""
        outputs = made.finished_body().outputs
        found = [tf.TensorSpec(_shape_in_some_branch(tensor), tensor.dtype) for tensor in outputs]
        if all(spec.shape.rank == tensor.shape.rank for spec, tensor in zip(found, outputs, strict=True)):
            return made
        try:
            return self._settle(specs, tf.nest.pack_sequence_as(made.body_outputs(), found))
        except Exception:  # the guess was wrong: an unknown shape is right, too
            return made

    def _trace(self, specs: dict[str, Any], outputs: Any, check: bool = True) -> SubGraph:
        options = {**self._options, "outputs": outputs}
        made = SubGraph(inputs=tuple(specs.values()), **options)
        converted = self._converted()
        with made:
            arguments = dict(zip(specs, made.declared_arguments(), strict=True))
            self._defining.subgraph, self._defining.arguments = made, arguments
            positional, named = self._arranged(arguments)
            try:
                with _lines_of(converted):
                    result = converted(*self._owner, *positional, **named)
                made.output(result, check=check)
            except Exception as error:
                if not self._needs_source(error):
                    whose = f"function '{self._options['name']}'"
                    explained = symbolic.explain(whose, error, error.__traceback__, converted)
                    if explained is not None:
                        raise explained from error
                if not isinstance(error, RecgraphError) and not hasattr(error, _PLACE):
                    place = origin.of_traceback(error.__traceback__, converted)
                    setattr(error, _PLACE, place)
                    if place:
                        error.add_note(f"  in {self._options['name']}: {place}")
                raise
            finally:
                self._defining.subgraph = self._defining.arguments = None
        return made

    def _converted(self) -> Callable[..., Any]:
        """The function with `if`, `for` and `while` on tensors.

        As it is, where there is no source to convert, or where it was converted with a `tf.function` that defines it.
        """
        if "ag__" in getattr(getattr(self._function, "__code__", None), "co_freevars", ()):
            return self._function
        try:
            function = sources.findable(self._function)
        except LookupError:
            return self._function
        converted: Callable[..., Any] = tf.autograph.to_graph(function)
        return converted

    def _needs_source(self, error: Exception) -> bool:
        """Whether `error` comes of Python control flow on tensors that AutoGraph could not convert."""
        refused = isinstance(_raised(error), tf.errors.OperatorNotAllowedInGraphError)
        return refused and self._converted() is self._function

    def _arranged(self, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What `_bind` has named, as positional and named arguments of the function."""
        left = dict(arguments)
        positional: list[Any] = []
        for label, parameter in self._signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional += [left.pop(f"{label}_{i}") for i in range(len(arguments)) if f"{label}_{i}" in left]
            elif label not in left or parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                break  # what follows a parameter that is left out goes by its name
            else:
                positional.append(left.pop(label))
        return tuple(positional), left


def _raised(error: BaseException) -> BaseException:
    """What the user's code raised."""
    return error.__cause__ if isinstance(error, SymbolicError) and error.__cause__ is not None else error


def _told(error: BaseException | None) -> str:
    """An error in one line, as a part of another one."""
    return str(error.args[0]) if isinstance(error, SymbolicError) else f"{type(error).__name__}: {error}"


def _lines_of(converted: Any) -> contextlib.AbstractContextManager[Any]:
    """Operations in it are of the user's lines."""
    lines: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    return tf_private.lines_of(converted) if hasattr(converted, "ag_source_map") else lines


def _declared(function: Callable[..., Any]) -> dict[str, Any]:
    """The outputs, where the function's annotation is a `tf.TensorSpec` or a nest of them."""
    try:
        returned = inspect.get_annotations(function, eval_str=True).get("return")
    except Exception:  # names that only type checkers know
        return {}
    leaves = tf.nest.flatten(returned)
    return {"outputs": returned} if leaves and all(isinstance(leaf, tf.TensorSpec) for leaf in leaves) else {}


def _repeated(value: tf.Tensor, rows: dict[str, Any]) -> tf.Tensor:
    """`value` once for each row of the arguments; a list is a tensor, a tuple or dict is a nest."""
    first: Any = rows
    while isinstance(first, dict | tuple):
        first = next(iter(first.values() if isinstance(first, dict) else first))
    count = first.nrows(tf.int32)[None] if isinstance(first, tf.RaggedTensor) else tf.shape(first)[:1]
    return tf.broadcast_to(value, tf.concat([count, tf.shape(value)], 0))


def _specs(value: Any, rows: bool, name: str) -> Any:
    """The nest of specs of an argument, named after its parameter; a list is a tensor, a tuple or dict is a nest."""
    if isinstance(value, dict):
        return {key: _specs(part, rows, f"{name}_{key}") for key, part in value.items()}
    if isinstance(value, tuple):
        parts = [_specs(part, rows, f"{name}_{i}") for i, part in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if rows and isinstance(value, tf.RaggedTensor):
        return tf.TensorSpec(value.shape[1:], value.dtype, name)
    tensor = tf.convert_to_tensor(value)
    return tf.TensorSpec(tensor.shape[1:] if rows else tensor.shape, tensor.dtype, name)


def _zeros(spec: tf.TensorSpec) -> tf.Tensor:
    """A value of zeros, empty strings for text; 1 for an unknown dimension."""
    shape = [1 if size is None else size for size in (spec.shape.as_list() if spec.shape.rank is not None else [])]
    return tf.fill(shape, "") if spec.dtype == tf.string else tf.zeros(shape, spec.dtype)


def _shape_in_some_branch(tensor: tf.Tensor) -> tf.TensorShape:
    """The shape of a tensor or, if that is unknown, what one of the branches that give it knows."""
    if tensor.shape.rank is not None:
        return tensor.shape
    known = (result.shape for result in branches.results(tensor) if result.shape.rank is not None)
    return next(known, tensor.shape)


def _without_name(spec: tf.TensorSpec) -> tf.TensorSpec:
    return tf.TensorSpec(spec.shape, spec.dtype)


def _same(guess: Any, actual: Any) -> bool:
    try:
        tf.nest.assert_same_structure(guess, actual, check_types=False)
    except (ValueError, TypeError):
        return False
    pairs = zip(tf.nest.flatten(guess), tf.nest.flatten(actual), strict=True)
    return all(g.dtype == a.dtype and _as_text(g) == _as_text(a) for g, a in pairs)


def _as_text(spec: tf.TensorSpec) -> str:
    return str(spec.shape)


def _merge(guess: Any, actual: Any) -> Any:
    """The next guess: what came out, unless it already was more precise than what comes out now."""
    try:
        tf.nest.assert_same_structure(guess, actual, check_types=False)
    except (ValueError, TypeError):
        return actual
    return tf.nest.map_structure(
        lambda g, a: a if g.dtype != a.dtype or g.shape.rank is None else signature.relax(g, a), guess, actual
    )
