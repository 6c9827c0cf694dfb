"""Random programs whose names, attributes and members share lists, and change them where a tensor decides."""

from __future__ import annotations

import random
import textwrap

_NAMES = ("a", "b", "c", "model.p", "model.q", "d['k']", "e[0]")
_VALUES = ("x[0]", "x[1]", "s", "x[2] * 2.0", "tf.reduce_sum(x)")
_CONDITIONS = ("s > 0.5", "s < 1.5", "x[0] > 3.0", "tf.reduce_sum(x) > 20.0")
# What a statement may be, each as often as it stands here.
_PLAIN = (
    *("{name} = {name}",) * 5,
    *("{name} = {new}",) * 5,
    *("{name}.append({value})",) * 3,
    *("{name}[0] = {value}",) * 2,
    "a, b = {name}, {name}",
    "c, a = {name}, {name}",
    "d = «'k': {name}»",
    "e = [{name}]",
    "keep({name}, {value})",
    "b = {name} if {condition} else {name}",
)
_NESTED = (
    "if {condition}:\n{block}",
    "if {condition}:\n{block}",
    "if {condition}:\n{block}\nelse:\n{block}",
    "if {condition}:\n{block}\nelse:\n{block}",
    "for i in range(2):\n{block}",
)
# How often a statement has others in it.
_DEEPER = 0.3
_FRAME = '''"""A random program."""

import tensorflow as tf


class Model:
    """Lists that are there before each call."""

    def __init__(self):
        self.p = [tf.constant(1.0), tf.constant(2.0)]
        self.q = {q}


def make():
    model, log = Model(), []

    def keep(members, value):
        members[0] = value

    def step(x, s):
        a, b, c = [x[0], s], [s, x[1]], model.p
        d, e = {{"k": a}}, [model.q]
{body}
        every = [a, b, c, model.p, model.q, d["k"], e[0]]
        return every, [[one is other for other in every] for one in every]

    def arguments(i):
        log[1:] = log[-1:]
        log.append([old is new for old in (log[-1][-1] if log else []) for new in (model.p, model.q)])
        for members in (model.p, model.q):
            del members[6:]
        if i % 4 == 3:
            model.p[0] = tf.constant(50.0 + i)
        log[-1].append((model.p, model.q))
        return tf.fill([3], float(i % 5)) + tf.range(3.0), tf.constant(float((i * i) % 3 if i % 2 else 0))

    return step, arguments, [model, log]
'''


def write(choices: random.Random) -> str:
    """The text of a program."""
    body = "\n".join(_statement(choices, 2) for _ in range(choices.randint(2, 5)))
    q = choices.choice(("self.p", "[tf.constant(3.0)]"))
    return _FRAME.format(body=textwrap.indent(body, " " * 8), q=q)


def _statement(choices: random.Random, depth: int) -> str:
    is_deeper = depth > 0 and choices.random() < _DEEPER
    text = choices.choice(_NESTED if is_deeper else _PLAIN)
    kinds = {"{name}": _NAMES, "{value}": _VALUES, "{condition}": _CONDITIONS}
    while "{" in text:
        first = min((kind for kind in (*kinds, "{new}", "{block}") if kind in text), key=text.index)
        if first == "{block}":
            statements = [_statement(choices, depth - 1) for _ in range(choices.randint(1, 3))]
            filled = textwrap.indent("\n".join(statements), "    ").replace("{", "«").replace("}", "»")
        elif first == "{new}":
            filled = f"[{', '.join(choices.choice(_VALUES) for _ in range(choices.randint(1, 2)))}]"
        else:
            filled = choices.choice(kinds[first])
        text = text.replace(first, filled, 1)
    return text.replace("«", "{").replace("»", "}")
