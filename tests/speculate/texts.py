"""Programs that turn changing state into text, one source for each: what is set up, what changes, how it is shown.

Each step changes what it shows before and after it is shown, and the state is changed between steps, too. A kind of
state is shown in all of `WAYS`; `SINGLE` has what is shown in ways of its own.
"""

from __future__ import annotations

import dataclasses
import textwrap
from typing import Final

# Expressions for the text of `c`.
WAYS: Final = (
    'f"{c}"', 'f"{c!r}"', 'f"{c!s:>90}"', 'f"{c!r:.12}"', 'f"{c=}"', 'f"{n}: {c!a}"', "str(c)", "repr(c)", "ascii(c)",
    "format(c)", '"%s" % (c,)', '"%r of %s" % (n, c)', '"{}".format(c)', '"{c!r:.20}".format(c=c)',
    '"{0} {1}".format(n, c)', '", ".join([str(c), repr(n)])', 'f"{[c]}"', 'f"{(c, n)}"', 'str({"k": c})',
    '"%(c)s" % {"c": c}', 'str(c).upper() + f"{n:03d}"', '"{c}".format_map({"c": c})',
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Text:
    """A program.

    Attributes:
        setup: lines that make `c`, or what `shown` needs.
        change: lines of the step that change it, by the tensor `x` and the number `n`.
        shown: the expressions.
        between: lines that change it before call `i`.
        again: lines that change it after it was shown.
        converted: whether the last steps run as graphs.
    """

    setup: str
    change: str = "pass"
    shown: tuple[str, ...] = WAYS
    between: str = "pass"
    again: str = "pass"
    converted: bool = True

    @property
    def source(self) -> str:
        """The module, with a function `make` that gives the step and its arguments."""
        shown = ", ".join(self.shown)
        lines = [
            _IMPORTS, "def make():", _indented(self.setup), "    def step(x, n):", _indented(self.change, 8),
            f"        texts = [{shown}]", f"        print({self.shown[0]}, n)", _indented(self.again, 8),
            f"        return x * 2.0, texts, {self.shown[0]}", "    def arguments(i):", _indented(self.between, 8),
            "        return tf.constant([i * 0.5, 2.0]), i", "    return step, arguments",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"


def _indented(lines: str, by: int = 4) -> str:
    return textwrap.indent(textwrap.dedent(lines).strip("\n"), " " * by)


_IMPORTS: Final = textwrap.dedent("""
    import collections, dataclasses, decimal, enum, functools, io, json, logging, pprint, reprlib, string, sys
    import textwrap, types, warnings
    import keras, numpy as np, tensorflow as tf
    Point = collections.namedtuple("Point", "a b")
    class Named(collections.namedtuple("Named", "a")):
        def __repr__(self): return f"<{self.a}>"
    @dataclasses.dataclass
    class Data:
        a: object
        b: object = 0
        hidden: object = dataclasses.field(default=1, repr=False)
    class Plain:
        def __init__(self, a): self.a = a
    class Written(Plain):
        def __str__(self): return f"str {self.a}"
        def __repr__(self): return f"repr {self.a}"
        def __format__(self, specification): return f"format {self.a} {specification}"
    class OwnList(list):
        def __repr__(self): return f"OwnList of {len(self)}"
    class OwnDict(dict):
        def __str__(self): return f"OwnDict of {len(self)}"
    class Colour(enum.Enum):
        RED, BLUE = 1, 2
    LEVEL = [0]
    class Loud(enum.Enum):
        RED, BLUE = 1, 2
        def __str__(self): return f"{self.name} at {LEVEL[0]}"
    class Bits(enum.Flag):
        A, B = 1, 2
    class Problem(Exception):
        pass
    class Meta(type):
        def __repr__(cls): return f"a class at {LEVEL[0]}"
    class OfMeta(metaclass=Meta):
        pass
""")

_OBJECT: Final = WAYS[:9] + ('"{}".format(str(c))', '"%s" % str(c)', '", ".join([str(c), repr(n)])')

KINDS: Final[dict[str, Text]] = {
    "list_that_grows": Text("c = [0.0]", "c.append(n)", again="c.append(-n)", between="if i % 3 == 0: c.append(i)"),
    "list_that_shrinks": Text("c = [*range(40)]", "c.pop()", again="c.pop(0)"),
    "list_with_items_set": Text("c = [1, 2.5, 'a']", "c[0] = n", again="c[1] = n * 0.5", between="c[2] = f't{i}'"),
    "list_extended": Text("h = Plain([1])", "h.a += [n]\nh.a.extend([2, n])\nc = h.a", again="h.a.clear()"),
    "list_of_floats_of_tensors": Text("c = [0.0]", "c.append(float(tf.reduce_sum(x)))", again="c[0] = float(x[0])"),
    "list_of_tensors": Text("c = [tf.zeros([2])]", "c.append(x + 1.0)", again="del c[0]"),
    "list_nested": Text("c = [[0.0], {'k': [1]}]", "c[0][0] = n", again="c[1]['k'][0] = n", between="c[0][0] = i + 7"),
    "list_made": Text("h = Plain(0)", "c = [n, h.a]\nc.append(x[0])\nh.a = n", again="c.append(1)\nc[0] = 'new'"),
    "list_sorted": Text("c = [3, 1, 2]", "c.append(n % 4)\nc.sort()\ndel c[0]", again="c.reverse()"),
    "tuple_replaced": Text("h = Plain((0,))", "h.a = (n, x[0], h.a[0])\nc = h.a", again="h.a = (n,)"),
    "named_tuple": Text(
        "h = Plain(Point(0, 0))", "h.a = Point(n, float(x[0]))\nc = h.a", again="h.a = h.a._replace(b=2)"
    ),
    "dict_with_items_set": Text("c = {'a': 0}", "c['a'] = n", again="c['b'] = x", between="c['a'] = i * 100"),
    "dict_with_new_keys": Text("c = {}", "c['n'] = n\nc['x'] = x[0]", again="del c['n']\nc['n'] = -n"),
    "dict_of_lists": Text("c = {'l': [0, 1]}", "c['l'][0] = n", again="c['l'][1] = n", between="c['l'][1] = -i"),
    "dict_updated": Text("c = {'a': 1}", "c.update(a=n, b=[n])", again="c.pop('b')"),
    "dict_made": Text("h = Plain(0)", "c = {'n': n, **{'m': h.a}}\nh.a = n", again="c['z'] = n"),
    "dict_in_a_dict": Text("c = {'a': {'b': 1}}", "c['a']['b'] = n", again="c['a']['c'] = x"),
    "set_of_one": Text("c = {1}", "c.discard(2)\nh = n", between="c.clear(); c.add(i)"),
    "set_that_grows": Text("c = {1}", "c.add(n)", again="c.add(-n)", converted=False),
    "set_made": Text("h = Plain(0)", "c = {1, 2}\nc.add(3)\nh.a = n", again="c.add(4)"),
    "frozenset_held": Text("c = frozenset({1, 2})", "h = n"),
    "deque_that_moves": Text("c = collections.deque([1.0], maxlen=4)", "c.append(n)", again="c.append(x[0])"),
    "deque_without_end": Text("c = collections.deque()", "c.append(n)", again="c.append(n)", between="c.appendleft(i)"),
    "counter": Text("c = collections.Counter(a=1)", "c['a'] += n", again="c['b'] += 2", between="c['a'] -= 1"),
    "counter_made": Text("h = Plain(0)", "c = collections.Counter(['a'])\nc['a'] += n", again="c['z'] = n"),
    "ordered_dict": Text(
        "c = collections.OrderedDict(a=1, b=2)", "c['a'] = n\nc.move_to_end('a')", again="c.move_to_end('b')"
    ),
    "default_dict": Text("c = collections.defaultdict(int)", "c['a'] += n", again="c['b'] += 1"),
    "default_dict_of_lists": Text("c = collections.defaultdict(list)", "c['a'] = [n]", again="c['a'].append(x)"),
    "chain_map": Text("d = {'a': 0}\nc = collections.ChainMap(d)", "d['a'] = n", converted=False),
    "user_list": Text("c = collections.UserList([0])", "c.append(n)", converted=False),
    "user_dict": Text("c = collections.UserDict(a=0)", "c['a'] = n", converted=False),
    "namespace": Text("c = types.SimpleNamespace(a=0)", "c.a = n", converted=False),
    "list_of_the_users": Text("c = OwnList()", "c.append(n)", converted=False),
    "list_of_lists_of_the_users": Text("c = [OwnList([1])]", "c[0].append(n)", converted=False),
    "dict_of_the_users": Text("c = OwnDict()", "c['a'] = n", converted=False),
    "named_tuple_of_the_users": Text("h = Plain(Named(0))", "h.a = Named(n)\nc = h.a", converted=False),
    "list_of_objects": Text("c = [Written(0)]", "c[0].a = n", converted=False),
    "list_of_data": Text("c = [Data(0)]", "c[0].a = n", converted=False),
    "list_that_holds_itself": Text("c = [0]\nc.append(c)", "c[0] = n", converted=False),
    "variable": Text("c = tf.Variable(1.0)", "c.assign_add(x[0] + 1.0)", again="c.assign(0.5)", between="c.assign(i)"),
    "variables_in_a_list": Text("v = tf.Variable([1.0])\nc = [v, 1]", "v.assign_add([1.0])", again="v.assign([0.5])"),
    "variables_in_a_dict": Text("v = tf.Variable(1)\nc = {'v': v}", "v.assign_add(1)", again="v.assign(5)"),
    "keras_variable": Text("c = keras.Variable(1.0, name='v')", "c.assign_add(x[0])", again="c.assign(0.5)"),
    "tensor": Text("h = Plain(0)", "c = x * 3.0\nh.a = n"),
    "tensor_of_integers": Text("h = Plain(0)", "c = tf.constant([1, 2]) + tf.cast(x, tf.int32)\nh.a = n"),
    "tensor_that_is_held": Text("h = Plain(tf.zeros([2]))", "c = h.a\nh.a = h.a + x", again="h.a = x"),
    "string_tensor": Text("h = Plain(0)", "c = tf.strings.as_string(x)\nh.a = n"),
    "ragged_tensor": Text("h = Plain(0)", "c = tf.RaggedTensor.from_row_lengths(x, [1, 1])\nh.a = n"),
    "array_of_a_tensor": Text("h = Plain(0)", "c = x.numpy()\nh.a = n"),
    "array_changed": Text("h = Plain(0)", "c = x.numpy()\nc[0] = n\nh.a = n", again="c[1] = n\nc.sort()"),
    "array_made": Text("h = Plain(0)", "c = np.array([n, 2.0])\nh.a = n"),
    "array_held": Text("c = np.zeros([2])", "h = n", between="c[0] = i"),
    "number_of_numpy": Text("h = Plain(np.float32(0.1))", "h.a = h.a + np.float32(n)\nc = h.a"),
    "float_of_a_tensor": Text("h = Plain(0)", "c = float(tf.reduce_sum(x)) * 0.1\nh.a = n"),
    "number": Text("h = Plain(0)", "h.a += n\nc = h.a", again="h.a += 1"),
    "string": Text("h = Plain('')", "h.a = f'{n}'\nc = h.a"),
    "bytes": Text("h = Plain(b'')", "h.a = str(n).encode()\nc = h.a"),
    "bytearray": Text("c = bytearray(b'a')", "c.append(65 + n)", converted=False),
    "boolean_of_a_tensor": Text("h = Plain(0)", "c = bool(x[0] > 2.0)\nh.a = n"),
    "none_at_times": Text("h = Plain(None)", "c = h.a\nh.a = None if n % 2 else 1.5"),
    "decimal": Text("h = Plain(decimal.Decimal('0.1'))", "c = h.a", between="h.a = decimal.Decimal(i)"),
    "shape": Text("h = Plain(0)", "c = x.shape\nh.a = n"),
    "dtype": Text("h = Plain(0)", "c = x.dtype\nh.a = n"),
    "class": Text("h = Plain(0)", "c = Plain\nh.a = n", between="Plain.__qualname__ = f'Plain{i // 4}'"),
    "class_with_text_of_its_own": Text("h = Plain(0)", "LEVEL[0] = n\nc = OfMeta", converted=False),
    "enumeration": Text("h = Plain(Colour.RED)", "h.a = Colour.RED if n % 2 else Colour.BLUE\nc = h.a"),
    "flag": Text("h = Plain(0)", "c = Bits.A | Bits.B if n % 2 else Bits.A\nh.a = n"),
    "enumeration_in_a_list": Text("c = [Loud.RED]", "LEVEL[0] = n", converted=False),
    "enumeration_of_the_users": Text("h = Plain(0)", "LEVEL[0] = n\nc = Loud.RED", _OBJECT, again="LEVEL[0] = 9"),
    "dataclass": Text("c = Data(0)", "c.a = n\nc.hidden = n", _OBJECT, again="c.b = n", between="c.b = i * 2"),
    "dataclass_with_containers": Text("c = Data([0])", "c.a[0] = n", _OBJECT, again="c.a[0] = x[0]"),
    "dataclass_made": Text("h = Plain(0)", "c = Data(n, h.a)\nh.a = n", _OBJECT, again="c.a = 0"),
    "object_with_text": Text("c = Written(0)", "c.a = n", (*_OBJECT, 'f"{c:>3}"', 'format(c, "x")'), again="c.a = -n"),
    "object_with_text_of_a_tensor": Text("c = Written(0)", "c.a = x[0]", _OBJECT),
    "object_with_a_list": Text("c = Written([0])", "c.a.append(n)", _OBJECT, again="c.a.append(0)"),
    "attributes": Text("h = Plain(0)", "h.a = n\nc = vars(h)", again="h.a = 'later'"),
    "attributes_by_name": Text("h = Written(0)", "h.a = n\nc = dict(h.__dict__)", again="h.a = 'later'"),
    "keywords": Text(
        "def f(**kw):\n    kw['m'] = kw['n'] * 2\n    return kw", "c = f(n=n, x=x[0])", again="c['n'] = 1"
    ),
    "positions": Text("def f(*given):\n    return given", "c = f(n, x[0], [n])", again="c[2].append(n)"),
    "keys": Text("d = {'a': 0}", "d['b'] = n\nc = d.keys()", again="d.pop('b')"),
    "values": Text("d = {'a': 0}", "d['a'] = n\nc = d.values()", again="d['a'] = 1"),
    "items": Text("d = {'a': 0}", "d['a'] = x[0]\nc = d.items()", again="d['a'] = 1"),
    "range": Text("h = Plain(0)", "c = range(n % 3)\nh.a = n"),
    "slice": Text("h = Plain(0)", "c = slice(n, h.a)\nh.a = n"),
    "exception": Text("h = Plain(0)", "c = ValueError(f'{h.a}', n)\nh.a = n", _OBJECT),
    "exception_caught": Text(
        "h = Plain([0])",
        """
        try:
            h.a[0] = n
            raise Problem(f"{h.a}")
        except Problem as problem:
            c = problem
        """,
        _OBJECT,
    ),
}

_PRINTS: Final = (
    "print(c)", "print(c, n, sep='-')", "print(c, end='!')", "print(c, file=sys.stdout)", "print(*c)", "print([c], x)",
    "print('%s' % (c,))", "print(f'{c}', {'c': c})", "print(str(c), repr(c), flush=True)", "print(c, c, sep=str(n))",
)  # fmt: skip

_KEPT: Final = "texts = []"


def _single(setup: str, change: str, shown: str, again: str = "pass", converted: bool = True) -> Text:
    return Text(setup, change, (shown,), again=again, converted=converted)


SINGLE: Final[dict[str, Text]] = {
    **{
        f"printed_list_{i}": _single("c = [0]", f"c.append(n)\n{line}", "n", "c.append(0)")
        for i, line in enumerate(_PRINTS)
    },
    **{
        f"printed_counter_{i}": _single("c = collections.Counter(a=1)", f"c['a'] += n\n{line}", "n", "c['b'] += 1")
        for i, line in enumerate(_PRINTS)
    },
    "printed_to_a_buffer": _single(
        "c = [0]\nb = io.StringIO()", "c.append(n)\nprint(c, file=b)", "b.getvalue()", converted=False
    ),
    "written_to_a_buffer": _single("c = [0]\nb = io.StringIO()", "c.append(n)\nb.write(f'{c}')", "n", converted=False),
    "template": _single("c = [0]", "c.append(n)", "string.Template('$c').substitute(c=c)", converted=False),
    "wrapped": _single("c = [0]", "c.append(n)", "textwrap.fill(str(c), 20)", converted=False),
    "pretty": _single("c = {'a': [0]}", "c['a'].append(n)", "pprint.pformat(c)", converted=False),
    "short": _single("c = [0]", "c.append(n)", "reprlib.repr(c)", converted=False),
    "json_of_a_dict": _single("c = {'a': 0}", "c['a'] = n", "json.dumps(c)", "c['a'] = 1"),
    "json_of_a_list": _single("c = [0]", "c.append(n)", "json.dumps(c)", "c.append(1)"),
    "json_of_nested_data": _single("c = {'a': [0]}", "c['a'][0] = n", "json.dumps(c, indent=n % 3)", "c['a'][0] = 1"),
    "json_of_a_float": _single("h = Plain(0)", "h.a = n", "json.dumps([float(x[0]), h.a])"),
    "joined": _single("c = ['a']", "c.append(f'{n}')", "'-'.join(c)", "c.append('z')"),
    "joined_texts": _single("c = [0]", "c.append(n)", "','.join(map(str, c))", "c.append(0)"),
    "joined_generator": _single("c = [0, 1]", "c[0] = n", "','.join(f'{one}' for one in c)", "c[1] = n"),
    "item_in_a_format": _single("c = {'a': 0}", "c['a'] = n", "'{0[a]}'.format(c)", "c['a'] = 1"),
    "attribute_in_a_format": _single("c = Plain(0)", "c.a = n", "'{0.a}'.format(c)", converted=False),
    "shape_in_a_format": _single("h = Plain(0)", "h.a = n", "'{0.shape} {0.dtype}'.format(x)"),
    "width_in_a_format": _single("h = Plain(0)", "h.a = n", "f'{h.a:>{n + 1}} {h.a:<{h.a}}'"),
    "number_in_percent": _single("h = Plain(0)", "h.a = n", "'%d %5.2f %x' % (h.a, n / 3, n)"),
    "float_in_percent": _single("h = Plain(0)", "h.a = n", "'%5.2f' % float(x[0])"),
    "tensor_in_percent": _single("h = Plain(0)", "h.a = n", "'%s' % x[0]"),
    "tensor_in_percent_r": _single("h = Plain(0)", "h.a = n", "'%r' % x"),
    "sum_in_percent": _single("h = Plain(0)", "h.a = n", "'a%sb' % tf.reduce_sum(x)"),
    "tensors_in_percent": _single("h = Plain(0)", "h.a = n", "'%s %s %d' % (x[0], x, n)"),
    "tensor_as_a_float": _single("h = Plain(0)", "h.a = n", "'%.2f' % x[0]"),
    "tensor_with_a_format": _single("h = Plain(0)", "h.a = n", "f'{x[0]:.2f}'"),
    "tensors_with_a_format": _single(
        "h = Plain(0)", "try: t = f'{x:.2f}'\nexcept TypeError: t = n", "t", converted=False
    ),
    "percent_in_place": _single("h = Plain(0)", "t = 'a %s'\nt %= x[0]\nh.a = n", "t"),
    "percent_of_an_operator": _single("import operator\nh = Plain(0)", "h.a = n", "operator.mod('%s', x[0])"),
    "percent_of_a_held_list": _single("c = [0]", "c.append(n)", "'%s' % c", "c.append(0)"),
    "percent_of_bytes": _single("h = Plain(0)", "h.a = n", "b'%d' % h.a"),
    "percent_of_an_object": _single("c = Written(0)", "c.a = n", "'%s' % c", converted=False),
    "format_of_an_object": _single("c = Written(0)", "c.a = n", "'{:>4}'.format(c)", converted=False),
    "default_argument": _single("def f(v, seen=[]):\n    seen.append(v)\n    return f'{seen}'", "t = f(n)", "t"),
    "global_list": _single("LEVEL[:] = [0]", "LEVEL.append(n)", "f'{LEVEL}'", "LEVEL.append(0)"),
    "closure_list": _single("c = []\ndef add(v):\n    c.append(v)\n    return f'{c}'", "t = add(n) + add(x[0])", "t"),
    "assertion": _single("c = [0]", "c.append(n)\nassert n >= 0, f'{c}'", "n"),
    "raised_text": _single("c = [0]", "c.append(n)\nif n > 6: raise ValueError(f'{c}')", "n"),
    "key_error": _single("c = {}", "try: c[('k', 1)]\nexcept KeyError as e: t = f'{e} {n}'", "t"),
    "warning": _single(
        "c = [0]",
        "with warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n    warnings.warn(f'{c}')",
        "n",
        converted=False,
    ),
    "logged": _single(
        "log = logging.getLogger('texts')\nc = [0]", "c.append(n)\nlog.warning('%s %s', c, n)", "n", "c.append(0)"
    ),
    "logged_text": _single(
        "log = logging.getLogger('texts')\nc = {'a': 0}",
        "c['a'] = n\nlog.info(f'{c}')\nlog.error('%r', c)",
        "n",
        "c['a'] = 1",
    ),
    "logged_tensor": _single(
        "log = logging.getLogger('texts')\nc = collections.deque([0], 3)",
        "c.append(n)\nlog.warning('%s %s %s', x, x[0], c)",
        "n",
    ),
    "alias": _single("c = [0]\nd = {'c': c}", "c.append(n)", "f'{d}'", "c.append(0)"),
    "two_lists_at_times_one": Text(
        "h = Plain([0])\ng = Plain([1])", "h.a[0] = n", ("f'{g.a} {h.a}'",), between="g.a = h.a if i > 6 else [1]"
    ),
    "replaced_list": Text("h = Plain([0])", "h.a.append(n)", ("f'{h.a}'",), between="h.a = [i]"),
    "other_types_later": Text("c = [0]", "c.append(n)", ("f'{c}'",), between="if i == 7: c.append(Written(1))"),
    "members_of_a_tuple": Text("h = Plain(([0], 1))", "h.a[0].append(n)", ("f'{h.a}'",), again="h.a[0].append(0)"),
    "text_in_a_branch": _single("c = [0]", "c.append(n)\nt = ''\nif x[0] > 2.0:\n    t = 'large'", "f'{t} {c}'"),
    "text_in_a_loop": _single("c = [0]", "t = ''\nfor k in range(3):\n    c[0] = k + n\n    t += f'{c} '", "t"),
    "text_of_a_loop_s_list": _single("c = []", "c.clear()\nfor k in range(3):\n    c.append(x[0] * k)", "f'{c}'"),
    "partial": _single("show = functools.partial('{} {}'.format, 'a')\nc = [0]", "c.append(n)", "show(c)"),
    "method_that_is_held": _single("show = '{}'.format\nc = [0]", "c.append(n)", "show(c)", "c.append(0)"),
    "str_of_a_class": _single("c = [0]", "c.append(n)", "str.format('{} {}', c, n)", "c.append(0)"),
    "list_method_of_object": _single(
        "c = [0]", "c.append(n)", "c.__repr__() + c.__str__() + c.__format__('')", "c.append(0)", False
    ),
    "tensor_method": _single("h = Plain(0)", "h.a = n", "x.__repr__() + x[0].__str__()"),
    "zfill": _single("h = Plain('1')", "h.a = f'{n}'", "h.a.zfill(4) + h.a.center(n)"),
    "text_of_texts": _single("c = []", "c.append(f'{n} {c}')", "f'{c!r}'"),
    "map_of_str": _single("c = [1, 2]", "c[0] = n", "list(map(str, [c, n]))", "c[1] = n"),
    "sorted_by_text": _single("c = [3, 20, 1]", "c[0] = n", "sorted(c, key=str)", "c[1] = n"),
    "text_as_a_key": _single("c = [0]\nd = {}", "c[0] = n % 2\nd[f'{c}'] = 1", "len(d)"),
    "length_of_text": _single("c = [0]", "c.append(n)", "len(f'{c}')", "c.append(0)"),
    "text_that_decides": _single("c = [0]", "c.append(n)\nt = 1 if '5' in f'{c}' else 2", "t", "c.append(0)"),
    "text_tensor": _single("c = [0]", "c.append(n)\nt = tf.constant(f'{c}')", "t", "c.append(0)"),
    "summed_texts": _single("c = [0]", "c.append(n)", "f'{c}' + str(n) + '!' * n"),
    "chr_and_hex": _single("h = Plain(0)", "h.a = n", "chr(65 + n) + hex(h.a) + bin(n) + oct(n)"),
    "dunder_dict_of_an_object": _single("c = Plain([0])", "c.a.append(n)", "f'{c.__dict__}'", "c.a.append(0)"),
    "round_in_text": _single("h = Plain(0)", "h.a = n", "f'{round(float(x[0]) * 1.234, 2)}'"),
}
PROGRAMS: Final = {**KINDS, **SINGLE}
