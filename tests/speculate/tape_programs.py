"""Random programs with gradient tapes: which gradients there are, of what kind, and their values, with branches and
loops before, around and after what the tapes record.
"""

from __future__ import annotations

import random
import textwrap

from tests.speculate import alias_programs

_KINDS = {
    "{t}": ("a", "a", "b", "c", "x"),
    "{name}": ("a", "b", "c"),
    "{v}": ("v", "w", "w"),
    "{condition}": ("s > 0.5", "s < 1.5", "tf.reduce_sum(x) > 20.0"),
}
_PLAIN = (
    *("{name} = {t} * {v}",) * 4,
    *("{name} = {t} + {v}",) * 2,
    *("{name} = {t} * {t}",) * 2,
    *("{name} = {t} + {t}",) * 2,
    *("{name} = {v} * 2.0",) * 2,
    "{name} = {t}",
    "{name} = {t} if {condition} else {t}",
    "{name} = tf.math.log({v})",
    "{name} = tf.sqrt(w) * {t}",
    "{name} = tf.gather(u, [0, 2, 1])",
    "{name} = {t} + tf.gather(u, [1, 1, 0])",
    "{name} = {t} + tf.reduce_sum(u)",
    "{name} = tf.stop_gradient({t})",
    "{name} = straight({t})",
    "{name} = tf.where({t} > {t}, {t}, {t})",
    "{name} = first({t}, {t})",
    "{name}, {name} = {t}, {t}",
    "kept.append({t})",
)
# What a tape may be told while it records, besides.
_TAPED = (
    *("with tape.stop_recording():\n{block}",) * 3,
    *("tape.watch({t})",) * 3,
    "tape.watch({v})",
    "tape.reset()",
)
_FRAME = '''"""A random program."""

import tensorflow as tf


@tf.custom_gradient
def straight(t):
    return tf.identity(t), lambda g: tf.where(tf.equal(g, 0.0), tf.ones_like(g), g)


@tf.function
def first(one, other):
    return one * 2.0


def make():
    v, w = tf.Variable([1.0, 2.0, 3.0]), tf.Variable([2.0, 1.0, 1.0])
    u = tf.Variable([1.0, 4.0, 2.0, 3.0])

    def step(x, s):
        a, b, c, kept = x, x * 2.0, s + x, []
{body}

    def arguments(i):
        w.assign([2.0, 0.0, 1.0] if i in (6, 9) else [2.0, 1.0, 1.0])
        s = float((i * i) % 3 if i % 2 else 0)
        return tf.fill([3], float(i % 5)) + tf.range(3.0), tf.constant(s)

    return step, arguments, [v, w, u]
'''


# The first derivatives, and those of their sum.
_ONE = """{before}
with tf.GradientTape({settings}) as tape:
{inside}
{after}
return a, b, c, [{gradients}]"""
_TWO = """with tf.GradientTape() as outer:
{before}
    with tf.GradientTape({settings}) as tape:
{inside}
{after}
    found = [{gradients}]
    total = tf.reduce_sum(a)
    for gradient in tf.nest.flatten(found):
        if gradient is not None:
            total = total + tf.reduce_sum(gradient)
return a, b, c, found, outer.gradient(total, [v, w, u])"""


def write_around(choices: random.Random) -> str:
    """The text of a program around which there may be a tape."""
    body = alias_programs.body(choices, _PLAIN, _KINDS, 5)
    results = choices.choice(("a, b", "a, b, c", "(a,)", "b, a"))
    return _FRAME.format(body=f"{body}\n        return {results}")


def write(choices: random.Random) -> str:
    """The text of a program that asks a tape for gradients, or another tape for those of these."""
    watches = choices.random() < 0.8
    is_persistent = choices.random() < 0.5
    settings = [f"persistent={is_persistent}", f"watch_accessed_variables={watches}"]
    before = [alias_programs.statement(choices, 1, _PLAIN, _KINDS) for _ in range(choices.randint(0, 3))]
    inside = ["tape.watch(x)"] if choices.random() < 0.5 else []
    inside += [] if watches else [f"tape.watch({choices.choice('vw')})"]
    for _ in range(choices.randint(2, 6)):
        is_told = choices.random() < 0.15
        inside.append(alias_programs.statement(choices, 0 if is_told else 2, _TAPED if is_told else _PLAIN, _KINDS))
    after = [alias_programs.statement(choices, 1, _PLAIN, _KINDS) for _ in range(choices.randint(0, 1))]
    is_one = choices.random() < 0.7
    margin = "" if is_one else "    "
    body = (_ONE if is_one else _TWO).format(
        before=textwrap.indent("\n".join(before), margin),
        settings=", ".join(settings),
        inside=textwrap.indent("\n".join(inside), margin + "    "),
        after=textwrap.indent("\n".join(after), margin),
        gradients=", ".join(_gradient(choices) for _ in range(choices.randint(1, 3) if is_persistent else 1)),
    )
    return _FRAME.format(body=textwrap.indent(body, " " * 8))


def _gradient(choices: random.Random) -> str:
    target = choices.choice(("a", "a", "b", "c", "[a, b]"))
    sources = choices.choice(("[v, w, u]", "[v, w, u, x]", "[v, w, u, x]", "[v, w, u, x, b]", "w"))
    zeros = ", unconnected_gradients='zero'" if choices.random() < 0.15 else ""
    return f"tape.gradient({target}, {sources}{zeros})"
