"""What random steps do beside what those for speculation do: Python in the middle of them that no graph could have."""

from __future__ import annotations

from typing import Final

from tests.speculate.grammar import blocks, several
from tests.speculate.random_programs import More

_EXPRESSIONS: Final = {
    "V": several("""
tf.constant({V}.numpy() * 2.0)   tf.constant(np.tanh({V}))   traced({V})   traced_loop({V}, {K} % 4)
tf.stack([row for row in {V}])   list(chunks({V}))[0]   next(chunks({V}))   tf.gather({V}, tf.argsort({V}[:, 0]))
generator.normal(tf.shape({V}))   tf.nn.dropout({V}, 0.5)   tf.sort({V}, 0)   pickle.loads(pickle.dumps({V}))
in_thread(lambda v: v.numpy() * 0.5, {V})   tf.identity({V})   tf.boolean_mask({V}, {V}[:, 0] > {F})
tf.cast(tf.cast({V}, tf.float16), tf.float32)   with_gradient({V})   tf.einsum('ab,bc->ac', {V}, model.w)
"""),
    "R": several("""
tf.constant(np.mean({V}, 0))   tf.random.stateless_normal([3], [{I}, {few}])   np.asarray({R}) * {R}
tf.unique({R}).y[:1] + {R}   tf.linalg.matvec(model.w, {R})   copy.deepcopy({R})   TOTAL * {R}
tf.reshape(tf.sparse.to_dense(tf.sparse.from_dense({R})), [3])   memory({R})
"""),
    "S": several("""
tf.constant(float({S}))   tf.constant({S}.numpy())   recent({few} + 1, {S})   tf.random.normal([], seed=1)
generator.uniform([])   bumped({S})   sum(chunks({V}))[0, 0]   TOTAL[{few} % 3]   tf.reduce_sum({V}.numpy())
tf.reduce_mean(tf.square({R} - {R}))   tf.norm({R})   metric({S})   tf.math.divide_no_nan({S}, {S})
tf.random.stateless_uniform([], [{few}, tf.cast({K}, tf.int32)])   in_thread(float, {S}) + {S}
tf.cast({S} > {F}, tf.float32)   [*{R}][{few} % 3]   attempt(lambda: {S} / ({I} - 1), {S})
"""),
    "K": several("""
tf.constant({K}.numpy() + 1)   tf.size(tf.where({R} > {F}))   tf.random.uniform([], 0, 4, tf.int32)   COUNTER + 0
tf.constant(6) // ({K} + 1)   attempt(lambda: tf.constant(6) // {K}, {K})
"""),
    "I": several("""
int({S}.numpy() > 0)   len(list(chunks({V})))   int(tf.argmax({R}))   {K}.numpy() % 4   len(LOG) % 4
{S}.shape.rank   list(range({few} + 1))[{K} % 1]   int(COUNTER)   attempt(lambda: [0, 1][{K}], {I})
"""),
    "F": several("""
float({V}.numpy().max())   float(np.sum({R}))   float({R}[1])   round(float(TOTAL[0]), 3)   metric.result()
"""),
    "T": several("""
f'«{set:K}»'   str({K}.numpy())   f'«{set:S}:.1f»'   repr({K})   str({V}.shape)   str({R}.dtype)
"""),
    "C": several("""
bool({S} > {F})   {S} is None   {S}.numpy() > 0.25   tf.reduce_all({V} == {V})   (not {S})   {K} in (0, 2)
np.any({R} > {F})   tf.is_tensor({F})   {R}[0] > {R}[1]   bool(LOG)
"""),
    "L": several("""
list({R})   [*{R}]   sorted({L}, key=float)   [p for row in chunks({V}) for p in row[0]]   LOG[-2:]
[p for p in {R} if p]   tf.split({R}, 3)[0:1]
"""),
}

_STATEMENTS: Final = (
    *several("""
LOG.append({S})   LOG.append({S})   LOG.append({S} * {F})   del LOG[:-5]   LOG[:] = LOG[:1]   COUNTER.assign_add({K})
COUNTER.assign({I})   TOTAL.assign_add(tf.tanh({R}))   TOTAL.assign({R})   TOTAL[{few} % 3].assign({S})
TOTAL.scatter_update(tf.IndexedSlices([{S}], [{K} % 3]))   model.w.assign(tf.tanh(model.w @ model.w))
print({K})   print(np.round({R}.numpy() + 0.0, 1))   tf.debugging.assert_equal({K}, {K})   model.late = {R}
metric.update_state({S})   metric.reset_state()   tf.random.set_seed({I})   {new:V} = traced({V})
tf.debugging.assert_greater({S}, {F}, 'too small')   model.kept = {V}   bumped({S})   hold({V})
"""),
    *blocks("""
for {loop:V} in chunks({V}):
    {round}

for {loop:I} in range({K} % 4):
    {round}

for {loop:I} in range(int(abs({S}) * 3) % 4):
    {round}

for {loop:S} in {R}:
    {round}

if TOTAL[{few} % 3] > {F}:
    {block}

if {S}.numpy() < {F}:
    {block}

while COUNTER > {I}:
    COUNTER.assign_sub(2)
    {round}

try:
    {block}
    raise LookupError(float({S}) > 0)
except (ValueError, LookupError) as error:
    {block}
    print(error)

try:
    {block}
    {new:R} = tf.gather({R}, [{few}, {K}])
except tf.errors.InvalidArgumentError:
    {block}

with tf.GradientTape(persistent=True) as tape:
    {block}
    loss = {S} * TOTAL[0] + penalty()
TOTAL.assign_sub(0.1 * tf.tanh(tape.gradient(loss, TOTAL)))
model.b.assign_sub(0.1 * tf.tanh(tape.gradient(loss, model.b)))

with tf.GradientTape() as outer_tape:
    with tf.GradientTape() as tape:
        {new:S} = tf.tanh({S}) * tf.reduce_sum(TOTAL * TOTAL)
    {new:R} = tape.gradient({set:S}, TOTAL, unconnected_gradients='zero')

with tf.name_scope('inner'):
    {block}

with tf.device('CPU:0'):
    {block}
"""),
)

_DEFINITIONS: Final = """
import copy
import pickle
import threading

import numpy as np

LOG = []
TOTAL = tf.Variable([0.5, -0.5, 0.25])
COUNTER = tf.Variable(0)
metric = keras.metrics.Mean()
generator = tf.random.Generator.from_seed(7)
PAST = []


@tf.function
def traced(v):
    return tf.tanh(v) * 0.5


@tf.function
def traced_loop(v, k):
    for _ in tf.range(k):
        v = tf.tanh(v)
    return v


@tf.function
def bumped(s):
    TOTAL.assign(TOTAL * 0.5)
    return s + TOTAL[0]


@tf.custom_gradient
def with_gradient(v):
    return tf.tanh(v), lambda upstream: upstream * tf.cos(v)


def chunks(v):
    for begin in range(0, len(v), 2):
        yield v[begin : begin + 1] * 0.5


def recent(count, other):
    found = [value for value in LOG if value.shape.rank == 0][-count:]
    return found[0] if found else other


def attempt(function, other):
    try:
        return function()
    except (IndexError, ZeroDivisionError, tf.errors.InvalidArgumentError) as error:
        print(type(error).__name__)
        return other


def in_thread(function, value):
    results, errors = [], []

    def work():
        try:
            results.append(function(value))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def memory(r):
    PAST.append(r)
    return PAST[max(0, len(PAST) - 4)]


def hold(v):
    PAST[:] = [*PAST[-5:], v[0]]

"""

_STATE: Final = "LOG, PAST, TOTAL, COUNTER, generator.state, [each.value for each in metric.variables]"

BESIDE: Final = More(_EXPRESSIONS, _STATEMENTS, _DEFINITIONS, _STATE, length=12)
