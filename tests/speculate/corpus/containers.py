"""Lists, dicts, sets, tuples, slices, comprehensions and strings."""

from __future__ import annotations

import collections
import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


def with_number(i: int) -> tuple[tf.Tensor, int]:
    """A tensor and the number of the call."""
    return tensor(i), i


@program
def methods_of_a_list() -> Any:
    kept = [3, 1, 2]

    def step(x: tf.Tensor, n: int) -> Any:
        kept.insert(0, n)
        last = kept.pop()
        kept.extend([last])
        kept.pop(1)
        kept.reverse()
        made = [1, 2]
        made.append(3)
        made.remove(1)
        made.sort(reverse=True)
        return x * len(kept), made, made.index(2), made.count(3), made * 2, made + [n], kept[-1]

    return step, with_number, kept


@program
def methods_of_a_dict() -> Any:
    kept: dict[str, Any] = {"a": 1.0, "b": 2.0}

    def step(x: tf.Tensor, n: int) -> Any:
        kept["a"] += 1.0
        kept.setdefault("c", n)
        kept.update(b=n, d=x)
        gone = kept.pop("d")
        made = {"n": n, **kept}
        made |= {"m": 2}
        keys, total = list(made), 0.0
        for key, value in made.items():
            total += value
        for value in made.values():
            total = total - 1
        return gone, keys, total, made.get("z", "none"), "a" in made, len(kept)

    return step, with_number, kept


@program
def methods_of_a_set() -> Any:
    kept = {1, 2}

    def step(x: tf.Tensor) -> Any:
        made = {2, 3}
        made.add(5)
        made.discard(9)
        return x, sorted(made | kept), sorted(made & kept), made - kept, 2 in kept, len(made), made <= {2, 3, 5, 7}

    return step, with_tensor, kept


@program
def a_set_grows() -> Any:
    kept: set[int] = set()

    def step(x: tf.Tensor, n: int) -> Any:
        kept.add(n % 4)
        return x * len(kept)

    return step, with_number, kept


@program
def slices_of_everything() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        members = [1, 2, 3, 4, 5]
        members[1:3] = [9]
        del members[-1:]
        k = n % 3
        return x[1:], x[:, :2], x[..., 0], x[::-1], x[k], x[0, k : k + 1], members[::2], "abcdef"[1:4], x[:, tf.newaxis]

    return step, with_number, None


@program
def unpacking() -> Any:
    def step(x: tf.Tensor, pairs: list[Any]) -> Any:
        first, *middle, last = pairs
        (a, b), c = first, [*middle, *last]
        p, q, *r = x
        d = {**{"a": a}, "b": b}
        [e, f] = "ef"
        return a * p + q, c, d, r, (*pairs, 1), e + f

    return step, lambda i: (tensor(i), [(1.0, i), 2, 3, (4, 5)]), None


@program
def deleting() -> Any:
    kept = {"a": [1, 2, 3]}

    def step(x: tf.Tensor, n: int) -> Any:
        y = x * 2.0
        del x
        kept["temporary"] = n
        del kept["temporary"]
        kept["a"].append(n)
        del kept["a"][0], kept["a"][0]
        kept["a"].insert(0, n)
        return y

    return step, with_number, kept


@program
def all_comprehensions() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        rows = [row * 2.0 for row in x]
        grid = [(i, j) for i in range(3) if i != 1 for j in range(i)]
        nested = [[x[i, j] for j in range(2)] for i in range(2)]
        table = {name: k + n for k, name in enumerate("ab")}
        letters = {c for c in "hello" if c != "l"}
        kept = [y for i in range(4) if (y := i * n) % 2 == 0]
        return rows, grid, nested, table, sorted(letters), kept, y

    return step, with_number, None


@program
def a_comprehension_without_none() -> Any:
    def step(x: tf.Tensor, parts: list[Any]) -> Any:
        return [x * part for part in parts if part is not None]

    return step, lambda i: (tensor(i), [1.0, None, 2.0]), None


@program
def generator_expressions() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        total = sum(x[i] * i for i in range(3))
        texts = ", ".join(str(i) for i in range(3)), tuple(i for i in range(2))
        truths = any(i > n for i in range(4)), all(i < 3 for i in range(3))
        return total, truths, max(i * i for i in (1, -2)), texts, sum((float(i) for i in range(3)), 1.0)

    return step, with_number, None


@program
def any_and_all_of_tensors() -> Any:
    def step(x: tf.Tensor) -> Any:
        return any(v > 1.0 for v in x[0]), all(v > -2.0 for v in x[1]), max(x[0, 0], x[0, 1]), min([x[1, 0], x[1, 1]])

    return step, with_tensor, None


@program
def a_comprehension_that_a_tensor_filters() -> Any:
    def step(x: tf.Tensor) -> Any:
        return [v for v in x[0] if v > 0.0]

    return step, lambda i: (tensor(i % 3),), None


@program
def a_list_shrinks_and_grows() -> Any:
    layers = [1.0, 2.0, 3.0]

    def step(x: tf.Tensor) -> Any:
        for layer in layers:
            x = x * layer
        return x

    def arguments(i: int) -> Any:
        if i == 6:
            layers.append(4.0)
        if i == 9:
            del layers[:2]
        return with_tensor(i)

    return step, arguments, layers


@program
def a_key_appears() -> Any:
    options: dict[str, Any] = {"rate": 0.5}

    def step(x: tf.Tensor) -> Any:
        if "bias" in options:
            x = x + options["bias"]
        return x * options.get("scale", 1.0) * options["rate"]

    def arguments(i: int) -> Any:
        if i == 6:
            options["bias"] = 1.0
        if i == 8:
            options["scale"] = tf.constant(2.0)
        if i == 10:
            del options["bias"]
        return with_tensor(i)

    return step, arguments, options


@program
def a_list_is_made_and_kept() -> Any:
    box = types.SimpleNamespace(rows=[], last=None)

    def step(x: tf.Tensor, n: int) -> Any:
        made = [x, n]
        box.rows.append(made)
        box.last = made
        made.append("end")
        return made

    return step, lambda i: (tf.ones([2]), i), box


@program
def a_window_of_results() -> Any:
    window: list[Any] = []

    def step(x: tf.Tensor) -> Any:
        window.append(tf.reduce_mean(x))
        if len(window) > 3:
            window.pop(0)
        return tf.add_n(window)

    return step, with_tensor, window


@program
def lists_of_tensors() -> Any:
    states = [tf.zeros([4, 3]), tf.ones([4, 3])]

    def step(x: tf.Tensor) -> Any:
        for k in range(len(states)):
            states[k] = states[k] * 0.5 + x
        return tf.stack(states), states[0]

    return step, with_tensor, states


@program
def nested_containers() -> Any:
    data = {"layers": [{"w": 1.0, "on": True}, {"w": 2.0, "on": False}], "shape": (4, 3)}

    def step(x: tf.Tensor) -> Any:
        for layer in data["layers"]:
            if layer["on"]:
                x = x * layer["w"]
            layer["w"] += 0.5
        return tf.reshape(x, data["shape"])

    def arguments(i: int) -> Any:
        if i == 7:
            data["layers"][1]["on"] = True
        return with_tensor(i)

    return step, arguments, data


@program
def a_list_that_holds_itself_twice() -> Any:
    inner = [1.0]
    outer = [inner, inner]

    def step(x: tf.Tensor) -> Any:
        outer[0][0] += 1.0
        outer[1][0] *= 2.0
        made = [x]
        return [made, made], outer[1][0], outer[0] is outer[1]

    return step, with_tensor, outer


@program
def a_dict_with_changing_keys() -> Any:
    counts: dict[int, int] = {}

    def step(x: tf.Tensor, n: int) -> Any:
        key = n % 3
        if key in counts:
            counts[key] += 1
        else:
            counts[key] = 1
        return x * counts[key]

    return step, with_number, counts


@program
def formatting() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        loss = tf.reduce_sum(x)
        texts = [f"{n:>4d}|{n!r}|{float(loss):.2f}", "%d of %s" % (n, "all"), "{} {:03d} {k}".format("a", n, k=n)]
        texts += [f"{'x'.upper()}{{}}{n:{4}}", str(n) + "!", repr("a"), "a-b".split("-")[1], f"{n=}"]
        return texts, loss

    return step, with_number, None


@program
def printing_with_all_arguments() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        print("step", n, [n, "a"], {"n": n}, sep=", ", end=".\n", flush=True)
        print()
        print("%.3f" % float(x[0, 0]), x.shape, x.dtype.name, x[0].numpy().tolist())
        print(f"sum {tf.reduce_sum(x).numpy():.2f}", (1, n))
        return x

    return step, with_number, None


@program
def printing_a_tensor() -> Any:
    def step(x: tf.Tensor) -> Any:
        print(x[0, 0], x[1:2])
        return x

    return step, with_tensor, None


@program
def numbers_of_tensors() -> Any:
    log: list[Any] = []

    def step(x: tf.Tensor) -> Any:
        a, b, c = float(x[0, 0]), int(x[0, 1] * 10), bool(x[0, 2] > 0)
        log.append((a, b, c, str(b), a + 1, b * 2 - 1, not c, a > 0.0, round(a, 2)))
        array = x.numpy()
        log.append(array[0].sum())
        return x * a + b

    return step, with_tensor, log


@program
def strings_vary() -> Any:
    def step(x: tf.Tensor, name: str) -> Any:
        return {name: x, name.upper() + "!": len(name)}, name.startswith("n1"), name[0]

    return step, lambda i: (tensor(i), f"n{i % 2}"), None


@program(graphs=3)
def a_tensor_picks_a_layer() -> Any:
    """A graph for each index: the members are functions and variables."""
    weights = [tf.Variable(tf.ones([3]) * i) for i in range(3)]
    functions = (tf.tanh, tf.sin, tf.exp)

    def step(x: tf.Tensor, number: tf.Tensor) -> Any:
        w = weights[number]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(functions[number - 3](x * w))
        weights[number].assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    return step, lambda i: (tf.ones([2, 3]) * i, tf.constant(i % 3)), weights


@program(eager="its class has a method for it", feature="INDEX", line="return x * table[number]")
def a_tensor_is_an_index_of_the_programs() -> Any:
    class Table:
        def __getitem__(self, index: Any) -> Any:
            return float(index.dtype.size) if isinstance(index, tf.Tensor) else 100.0

    table = Table()

    def step(x: tf.Tensor, number: tf.Tensor) -> Any:
        return x * table[number]

    return step, lambda i: (tf.ones([2]) * i, tf.constant(i % 3)), None


class Pair(tuple):
    """A tuple of a class of the program's, which takes its members as one."""


@program(eager="its class may make its objects itself", feature="ESCAPE")
def a_pair_leaves_the_call() -> Any:
    """It is refused before the variable is written."""
    v = tf.Variable(0.0)

    def step(x: tf.Tensor) -> Any:
        v.assign_add(1.0)
        return Pair([x * 2.0]), v + 0.0

    return step, with_tensor, v


def _with_decision(i: int) -> Any:
    return tensor(i), tf.constant(float((i * 7) % 5) - 2.0)


@program
def keys_come_in_another_order_on_one_way() -> Any:
    kept: dict[str, Any] = {}

    def step(x, s):
        made: dict[Any, Any] = {"p": 1.0, "q": 2.0, 1: 3.0}
        if s > 0.0:
            kept["a"] = x
            kept["b"] = x
            made["r"], made["s"] = x, x
            made["p"] = made.pop("p")
            del made[1]
            made[True] = 3.0
        else:
            kept["b"] = x
            kept["a"] = x * 2.0
            made["s"], made["r"] = x, x
        return made, list(made), list(map(type, made))

    def args(i: int) -> Any:
        kept.clear()
        return _with_decision(i)

    return step, args, kept


@program
def attributes_come_in_another_order_on_one_way() -> Any:
    kept = types.SimpleNamespace()

    def step(x, s):
        if s > 0.0:
            kept.a = x
            kept.b = x
        else:
            kept.b = x
            kept.a = x * 2.0
        return x

    def args(i: int) -> Any:
        vars(kept).clear()
        return _with_decision(i)

    return step, args, kept


@program
def a_member_goes_to_the_end_on_one_way() -> Any:
    kept = collections.OrderedDict(a=1, b=2, c=3)

    def step(x, s):
        made = collections.OrderedDict(p=1, q=2)
        if s > 0.0:
            kept.move_to_end("a")
            made.move_to_end("p")
        return x, list(kept), list(made)

    return step, _with_decision, kept


@program
def keyword_arguments_in_another_order() -> Any:

    def names(**named: Any) -> Any:
        return list(named), sum(named.values())

    def step(x, s):
        named = {}
        if s > 0.0:
            named["a"] = x
            named["b"] = x
        else:
            named["b"] = x
            named["a"] = x
        return names(**named)

    return step, _with_decision, None


def _in_order(*members: Any) -> set[Any]:
    """A set whose members take one another's places: their order is that in which they came."""
    made: set[Any] = set()
    for member in members:
        made.add(member)
    return made


@program
def sets_in_another_order() -> Any:
    """They are equal, and a program that goes through them sees that they are not the same."""

    def step(x, members):
        number = 0
        for member in members:
            number = 10 * number + member
        return x * float(len(members)), number, list(members), list(members.copy()), list(members | {32})

    def args(i: int) -> Any:
        return tensor(i), _in_order(*((8, 0, 16, 24) if i % 2 else (24, 16, 0, 8)))

    return step, args, None


@program(graphs=1)
def sets_of_which_nobody_sees_the_order() -> Any:

    def step(x, members):
        return x * float(len(members)), 8 in members, 3 in members, members.isdisjoint({5}), bool(members)

    def args(i: int) -> Any:
        return tensor(i), _in_order(*((8, 0, 16, 24) if i % 2 else (24, 16, 0, 8)))

    return step, args, None


@program
def the_order_in_which_members_come_to_a_set() -> Any:
    kept = _in_order(8, 0)

    def step(x):
        kept.add(24)
        kept.add(16)
        kept.discard(0)
        members = kept
        members |= {32}
        return x, list(kept)

    def args(i: int) -> Any:
        kept.clear()
        kept.update([8, 0])
        return (tensor(i),)

    return step, args, types.SimpleNamespace(order=_Order(kept))


class _Order:
    """The members of a set in their order."""

    def __init__(self, members: set[Any]) -> None:
        self._members = members

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return {"members": list(self._members)}


@program
def equal_members_of_other_types() -> Any:
    kept: set[Any] = set()

    def step(x, members, frozen):
        return x, [member * 1 for member in members], [str(member) for member in frozen], list(kept), 1.0 in kept

    def args(i: int) -> Any:
        kept.clear()
        kept.add([1, 1.0, True][i % 3])
        return tensor(i), [{1}, {1.0}, {True}][i % 3], [frozenset({0.0}), frozenset({-0.0})][i % 2]

    return step, args, kept


@program(
    eager="which member it is depends on those that were taken before",
    feature="CONTAINER",
    line="member = kept.pop()",
)
def a_member_is_popped_from_a_set() -> Any:
    kept = {0, 8, 16}

    def step(x):
        member = kept.pop()
        kept.add(member)
        return x, member

    return step, lambda i: (tensor(i),), kept


@program
def values_that_change_while_a_loop_goes_through_them() -> Any:
    kept = {"a": 1, "b": 2}

    def step(x):
        made, seen = {"a": 1, "b": 2}, []
        for name, value in made.items():
            made["b"] = 7
            seen.append((name, value))
        for value in kept.values():
            kept["b"] = kept["a"] + kept["b"]
            seen.append(value)
        return x, seen

    def args(i: int) -> Any:
        kept["b"] = 2
        return (tensor(i),)

    return step, args, kept


@program
def what_changes_its_size_while_a_loop_goes_through_it() -> Any:
    kept = collections.deque([1, 2])

    def step(x):
        said = []
        made = {"a": 1}
        try:
            for name, _ in made.items():
                made[name + "b"] = 2
        except RuntimeError as error:
            said.append(str(error))
        try:
            for member in kept:
                if member == 2:
                    kept.append(3)
        except RuntimeError as error:
            said.append(str(error))
        return x, said

    def args(i: int) -> Any:
        kept.clear()
        kept.extend([1, 2])
        return (tensor(i),)

    return step, args, kept


@program(eager="Python notices it, in its own way", feature="ITERATOR", line="for member in made:")
def a_deque_that_is_full_changes_while_a_loop_goes_through_it() -> Any:

    def step(x):
        made = collections.deque([1, 2], 2)
        try:
            for member in made:
                made.append(member)
        except RuntimeError as error:
            return x, str(error)
        return x, ""

    return step, lambda i: (tensor(i),), None
