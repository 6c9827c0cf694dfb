"""`tf.cond` and `tf.switch_case`: eagerly one of the functions is called, with all that it does to Python."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from recgraph.speculate import branches, builtin_calls, calls
from recgraph.speculate.builtin_calls import Arguments, special
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import is_symbolic


def _bound(names: tuple[str, ...], arguments: Arguments, named: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip(names, arguments, strict=False)), **named}


@special(tf.cond)
def _cond(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    given = _bound(("pred", "true_fn", "false_fn"), arguments, named)
    functions = [given.get("true_fn"), given.get("false_fn")]
    if ev.callbacks or not is_symbolic(given.get("pred")) or not all(map(callable, functions)):
        return builtin_calls.framework(ev, tf.cond, arguments, named)
    decided = ev.decide(given["pred"])
    then, otherwise = (functools.partial(calls.call, ev, function, [], {}) for function in functions)
    if isinstance(decided, tf.Tensor):
        return branches.choose(ev, decided, then, otherwise)
    return then() if decided else otherwise()


@special(tf.switch_case)
def _switch_case(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    given = _bound(("branch_index", "branch_fns", "default"), arguments, named)
    index, functions = given.get("branch_index"), given.get("branch_fns")
    if ev.callbacks or not is_symbolic(index) or not isinstance(functions, list | tuple):
        return builtin_calls.framework(ev, tf.switch_case, arguments, named)
    functions = [*functions, *([given["default"]] if given.get("default") is not None else [])]
    if not functions or not all(map(callable, functions)):
        return builtin_calls.framework(ev, tf.switch_case, arguments, named)
    return _case(ev, index, functions, 0)


def _case(ev: Evaluator, index: Any, functions: list[Any], number: int) -> Any:
    """The function of this number or a later one; what no number fits calls the last."""

    def this() -> Any:
        return calls.call(ev, functions[number], [], {})

    if number == len(functions) - 1:
        return this()
    what = f"case {number}"
    ev.seen(what)
    is_this = tf.reshape(tf.equal(index, number), [])
    return branches.choose(ev, is_this, this, lambda: _case(ev, index, functions, number + 1), what)
