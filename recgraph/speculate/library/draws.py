"""Random numbers of Python's and NumPy's generators, and elements of datasets: the script takes them before the graph
(`script/draws.py`).
"""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.defects import described
from recgraph.speculate.library import Arguments, scalar_checks
from recgraph.speculate.machine.evaluator import UNROLL, Evaluator
from recgraph.speculate.observe.reasons import Feature, RestartConversion
from recgraph.speculate.passes import ordering
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import ModerateCost, NoException
from recgraph.speculate.script.draws import GENERATORS
from recgraph.speculate.script.symbolic import DynamicValue
from recgraph.speculate.values import arrays, dynamic, keras_call_locals, library_calls

# Methods that change the generator only.
_DISTRIBUTIONS: Final = """
beta binomial chisquare dirichlet exponential f gamma geometric gumbel hypergeometric laplace logistic lognormal
logseries multinomial multivariate_hypergeometric multivariate_normal negative_binomial noncentral_chisquare
noncentral_f normal pareto poisson power rayleigh standard_cauchy standard_exponential standard_gamma standard_normal
standard_t triangular uniform vonmises wald weibull zipf bytes choice permutation random
"""
_OLD: Final = "rand randint randn random_integers random_sample seed tomaxint"
_OF_PYTHON: Final = """
betavariate binomialvariate choice choices expovariate gammavariate gauss getrandbits lognormvariate normalvariate
paretovariate randbytes randint random randrange sample seed triangular uniform vonmisesvariate weibullvariate
"""


def _names(*texts: str) -> frozenset[str]:
    return frozenset(name for text in texts for name in text.split())


_METHODS: Final[dict[type, frozenset[str]]] = {
    np.random.Generator: _names(_DISTRIBUTIONS, "integers permuted"),
    np.random.RandomState: _names(_DISTRIBUTIONS, _OLD),
    random.Random: _names(_OF_PYTHON),
}
# Of Python's generators, those that only pick: members of a sequence that may be anything.
_PICKING: Final = frozenset({"choice", "choices", "sample"})
# Those whose integers say how much is drawn.
_COUNTING: Final = _names(
    "bytes choice permutation permuted rand randbytes randn random random_sample sample shuffle standard_normal"
)


def generator_of(function: Any) -> Any:
    """The generator that a function is a method of; None for any other function."""
    owner = np.random.mtrand._rand if function is np.random.seed else getattr(function, "__self__", None)
    return owner if type(owner) in GENERATORS else None


def call(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    """A call of a method of a generator."""
    generator, method = generator_of(function), function.__name__
    if ev.contexts.forks:
        raise ev.refuse(
            Feature.RANDOM, "a tensor decides whether a number is drawn from a generator of Python's or NumPy's"
        )
    ev.need_sequence("a random number of Python's or NumPy's")
    if method == "shuffle" and len(arguments) == 1 and not named:
        return _shuffle(ev, generator, arguments[0])
    if method not in _METHODS[type(generator)] or named.get("out") is not None:
        raise ev.refuse(Feature.RANDOM, f"{type(generator).__name__}.{method} with these arguments runs eagerly")
    if type(generator) is random.Random and method in _PICKING and arguments and _is_sequence(arguments[0]):
        return _pick(ev, generator, method, arguments, named)
    found = _drawn(ev, generator, method, [ev.lift(a) for a in arguments], {k: ev.lift(v) for k, v in named.items()})
    return None if found.example is None else found


def _drawn(
    ev: Evaluator, generator: Any, method: str, arguments: Arguments, named: dict[str, Any], how: str = ""
) -> DynamicValue:
    """What a method gives, or the method of `Draws` that is named `how`."""
    given = list(symbolic.leaves([*arguments, *named.values()]))
    if any(
        symbolic.is_symbolic(a) or (isinstance(a, DynamicValue) and (a.late or a.tensor is not None)) for a in given
    ):
        raise ev.refuse(Feature.RANDOM, "what is drawn depends on a value that is known only after the graph has run")
    code = [ev.heap.name_of(generator) or ev.script.constant(generator), repr(method)]
    code += [*map(ev.code, arguments), *(f"{name}={ev.code(value)}" for name, value in named.items())]
    examples = [symbolic.example_of(a) for a in arguments]
    keywords = {name: symbolic.example_of(value) for name, value in named.items()}
    if ordering.is_guarded(ev):
        if is_large(method, *examples, **keywords):
            raise ev.refuse(
                Feature.SIZE, "many numbers are drawn where a tensor decides whether the program gets there"
            )
        if any(isinstance(a, DynamicValue) for a in given):
            ev.script.scope["is_large_draw"] = is_large
            size = ev.noted(ModerateCost, "a moderate count of random numbers")
            ev.script.assume(f"not is_large_draw({', '.join(code[1:])})", size)
    rehearsal: Callable[..., Any] = getattr(ev.script.rehearsal, how) if how else ev.script.rehearsal
    try:
        example = rehearsal(generator, method, *examples, **keywords)
    except Exception as error:
        raise ev.refuse(Feature.RAISES, described(error)) from error
    name = ev.script.name()
    ev.script.draw(name, f"draws{how and '.'}{how}({', '.join(code)})", ev.noted(NoException, method))
    return DynamicValue(name, example)


def _seed(ev: Evaluator, _: tuple[Any, ...]) -> keras_call_locals.Seed:
    """The seed that Keras gives an object which the call makes."""
    return keras_call_locals.Seed.of(call(ev, random.randint, [1, 10**9], {}))


def _tensor_of_seed(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """A state that begins with a seed: Keras makes a tensor of the list of both."""
    given, dtype, *_ = values
    if dtype is not None and (number := scalar_checks.float_as(ev, given, dtype)) is not None:
        return number
    if not (isinstance(given, list) and given and isinstance(given[0], keras_call_locals.Seed)):
        return library_calls.PLAIN
    rest = [tf.constant(one, tf.int64) for one in given[1:]]
    return tf.cast(tf.stack([ev.tensor(given[0].drawn, tf.int64), *rest]), dtype or tf.int32)


def _generator(ev: Evaluator, _: tuple[Any, ...]) -> Any:
    """The generator that all share is no part of a call."""
    if not tf_private.has_generator():
        raise ev.refuse(Feature.NEW_VARIABLE, "Keras makes its global generator of random numbers")
    return library_calls.PLAIN


library_calls.REPLACED.update(
    {
        tf_private.DRAWING_SEED: _seed,
        tf_private.MAKING_TENSOR: _tensor_of_seed,
        tf_private.SHARING_GENERATOR: _generator,
    }
)


def is_large(method: str, *arguments: Any, **named: Any) -> bool:
    """Whether a method gives more than a moderate number of members."""
    sizes = [named.get("size"), named.get("k"), *(a for a in arguments if isinstance(a, tuple | list))]
    if method in _COUNTING:
        sizes += [*arguments, arguments]
    elif len(arguments) > 2:
        sizes.append(arguments[-1])
    return any(dynamic.product([size]) > dynamic.MODERATE for size in sizes)


def take(ev: Evaluator, iterator: Any) -> Any:
    """The next element of an iterator over a dataset that was there before the call."""
    held = ev.heap.name_of(iterator)
    if held is None:
        raise ev.refuse(Feature.ITERATOR, "the call makes an iterator over a dataset, or reaches one by no path")
    if ev.contexts.forks:
        raise ev.refuse(Feature.ITERATOR, "a tensor decides whether an iterator over a dataset goes on")
    ev.need_sequence("an iterator over a dataset")
    seen, site = ev.seen()
    try:
        example = ev.script.rehearsal.take(iterator)
    except Exception as error:  # its end, or what a function of the dataset's raises
        raise ev.refuse(Feature.RAISES, described(error)) from error
    name, what = ev.script.name(), "an element of a dataset"
    ev.script.draw(name, f"draws.take({held})", ev.noted(NoException, "the iterator has another element"))
    return ev.heap.admit(example, name, what, seen, site, ev.where())


def _is_sequence(value: Any) -> bool:
    """Whether members are picked by their numbers: the script does not hold them all."""
    return isinstance(value, list | tuple | collections.deque)


def _pick(ev: Evaluator, generator: Any, method: str, arguments: Arguments, named: dict[str, Any]) -> Any:
    """Members of a sequence: their numbers are drawn, and each is read as the program would by its index."""
    sequence, *others = arguments
    numbers = ev.python(range, [ev.length(sequence)])
    others, named = [ev.lift(a) for a in others], {name: ev.lift(value) for name, value in named.items()}
    found = _drawn(ev, generator, method, [numbers, *others], named)
    if not isinstance(found.example, list):
        return ev.item(sequence, found)
    return [ev.item(sequence, number) for number in ev.members(found)]


def _shuffle(ev: Evaluator, generator: Any, members: Any) -> None:
    """An array or a list that the call has made gets its members in another order."""
    if isinstance(members, np.ndarray) and ev.heap.places.get(id(members)) is not None:
        raise RestartConversion({ev.heap.places[id(members)]})
    if arrays.is_early(members) and members.example.flags.writeable:
        after = _drawn(ev, generator, "shuffle", [members], {}, "shuffled")
        members.name, members.example = after.name, after.example
    elif type(members) is list and ev.heap.name_of(members) is None and _are_numbers(members):
        after = _drawn(ev, generator, "shuffle", [members], {}, "shuffled")
        members[:] = [ev.in_script(symbolic.get_item, [after, i]) for i in range(len(members))]
    else:
        raise ev.refuse(Feature.RANDOM, "what the call shuffles is no array and no list of numbers that it has made")


def _are_numbers(members: list[Any]) -> bool:
    return len(members) <= UNROLL and all(isinstance(symbolic.example_of(m), int | float) for m in members)
