"""Random programs that change what is shared or has an order where a tensor decides.

Names, attributes and members share lists; or the call makes arrays, views of them, dicts and objects.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Sequence

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
    "left = tf.cast(s, tf.int32)\nwhile left > 0:\n    left = left - 1\n{block}",
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


# Lists that the call makes and drops; some names are read while it goes on, and none is told apart.
_READ_NAMES = ("a", "b", "c", "o.p", "o.q", "d['k']")
_READING = (
    *("{name} = {name}",) * 4,
    *("{name} = {new}",) * 3,
    *("{name} = {new} if {condition} else {name}",) * 4,
    *("{name} = {name} if {condition} else {name}",) * 2,
    *("total = total + {name}[0] + {name}[-1]",) * 5,
    "total = total + len({name})",
    "total = total + tf.add_n([*{name}])",
    "first, *rest = {name}",
    "total = total + first + len(rest)",
    "{name} = list({name})",
    "{name} = {name} + {name}",
    "{name}.append({value})",
    "{name}[0] = {value}",
    "keep({name}, {value})",
    "total = total * (2.0 if {name} is {name} else 3.0)",
    "total = total + (1.0 if len({name}) == len({name}) else 2.0)",
    "o = Owner({name}, {name})",
    "d = «'k': {name}»",
    "e = ({name}, s)",
)
_READING_FRAME = '''"""A random program."""

import tensorflow as tf


class Owner:
    def __init__(self, p, q):
        self.p, self.q = p, q


def make():
    def keep(members, value):
        members[-1] = value

    def step(x, s):
        a, b = [x[0], s], [s, x[1]]
        o, c, total = Owner(a, b), a, tf.constant(0.0)
        d, e, first, rest = {{"k": b}}, (a, s), s, []
{body}
        return total, [tf.add_n(one) for one in (a, b, c, o.p, o.q, d["k"], e[0])]

    def arguments(i):
        return tf.fill([3], float(i % 5)) + tf.range(3.0), tf.constant(float((i * i) % 3 if i % 2 else 0))

    return step, arguments, None
'''


# The same for arrays that the call makes, and for dicts and attributes in an order.
_KINDS = {
    "{array}": ("a", "a", "b", "v", "o.a", "l[0]"),
    "{number}": ("1.0", "2.0", "-3.0", "n"),
    "{key}": ("'p'", "'q'", "'r'", "1", "True"),
    "{dict}": ("d", "d", "kept"),
    "{field}": ("f", "g", "h"),
    "{condition}": _CONDITIONS,
    "{value}": _VALUES,
}
_CHANGES = (
    *("{array}[0] = {number}",) * 3,
    *("{array} += {number}",) * 2,
    "np.add({array}, {number}, out={array})",
    "np.copyto({array}, {number})",
    "a.flat[1] = 5.0",
    "a = a + {number}",
    "b = np.full(2, {number}, np.float32)",
    "v = a[:1]",
    "l = [{array}]",
    "change({array}, {number})",
    *("{dict}[{key}] = {value}",) * 4,
    "{dict}.pop({key}, None)",
    "{dict}.setdefault({key}, {value})",
    "o.{field} = {value}",
    "p.{field} = {value}",
    "c.append(tf.reduce_sum(x) + {array}[0])",
    "c.extend(list({dict}))",
    "members.add({key})",
    "members.discard({key})",
    "c.append(sum(map(hash, members)))",
)
_CHANGES_FRAME = '''"""A random program."""

import types

import numpy as np
import tensorflow as tf


class Thing:
    pass


class Order(dict):
    def items(self):
        return [("members", [(type(m).__name__, m) for m in held])]


held = set()


def make():
    kept, p, members = {{}}, Thing(), held
    held.clear()

    def change(array, number):
        array[-1] = number

    def step(x, s, n):
        a, b = np.zeros(2, np.float32), np.ones(2, np.float32)
        v, o, l, d, c = a[1:], Thing(), [np.arange(2, dtype=np.float32)], {{"q": s}}, []
        o.a = b
{body}
        arrays = [np.sum(a), np.sum(b), np.sum(v), np.sum(o.a), np.sum(l[0])]
        keys = [(type(k).__name__, k) for k in d], list(o.__dict__), [(type(k).__name__, k) for k in kept]
        return arrays, keys, d, c, x * a[0] + l[0][1], [o.a is b, l[0] is a, v is a]

    def arguments(i):
        if i % 5 == 4:
            kept.clear()
            vars(p).clear()
        number = 0.5 * (i % 3) if i > 4 else 4.0
        return tf.fill([3], float(i % 5)) + tf.range(3.0), tf.constant(float((i * i) % 3 if i % 2 else 0)), number

    return step, arguments, [kept, p, Order()]
'''


def write(choices: random.Random) -> str:
    """The text of a program whose names share lists."""
    kinds = {"{name}": _NAMES, "{value}": _VALUES, "{condition}": _CONDITIONS}
    q = choices.choice(("self.p", "[tf.constant(3.0)]"))
    return _FRAME.format(body=body(choices, _PLAIN, kinds, 5), q=q)


def write_reading(choices: random.Random) -> str:
    """The text of a program that reads lists of which a tensor decides whether they are one."""
    kinds = {"{name}": _READ_NAMES, "{value}": _VALUES, "{condition}": _CONDITIONS}
    return _READING_FRAME.format(body=body(choices, _READING, kinds, 7))


def write_changes(choices: random.Random) -> str:
    """The text of a program that changes arrays, dicts and objects."""
    return _CHANGES_FRAME.format(body=body(choices, _CHANGES, _KINDS, 7))


def body(choices: random.Random, plain: Sequence[str], kinds: dict[str, Sequence[str]], most: int) -> str:
    """Statements of a function, as text, with those that they hold."""
    statements = [statement(choices, 2, plain, kinds) for _ in range(choices.randint(2, most))]
    return textwrap.indent("\n".join(statements), " " * 8)


def statement(choices: random.Random, depth: int, plain: Sequence[str], kinds: dict[str, Sequence[str]]) -> str:
    """A statement, as text, with those that it holds to a depth."""
    is_deeper = depth > 0 and choices.random() < _DEEPER
    text = choices.choice(_NESTED if is_deeper else plain)
    while "{" in text:
        first = min((kind for kind in (*kinds, "{new}", "{block}") if kind in text), key=text.index)
        if first == "{block}":
            statements = [statement(choices, depth - 1, plain, kinds) for _ in range(choices.randint(1, 3))]
            filled = textwrap.indent("\n".join(statements), "    ").replace("{", "«").replace("}", "»")
        elif first == "{new}":
            filled = f"[{', '.join(choices.choice(_VALUES) for _ in range(choices.randint(1, 2)))}]"
        else:
            filled = choices.choice(kinds[first])
        text = text.replace(first, filled, 1)
    return text.replace("«", "{").replace("»", "}")
