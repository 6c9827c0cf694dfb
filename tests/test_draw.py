"""Pictures: what is in them, that nothing overlaps, and what is said about values that do not fit."""

from __future__ import annotations

import io
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from matplotlib import font_manager, pyplot

import recgraph as rg
from recgraph import SubGraph, subgraph
from recgraph.coexec import Coexecuted
from recgraph.data import parse_tree
from recgraph.draw import bodies, draw, fonts, layers, layout, scene, traces, trees
from recgraph.errors import DefinitionError
from recgraph.testing import random_tree


def fibonacci() -> SubGraph:
    """A branch, two calls."""
    with SubGraph("fibonacci", outputs=tf.TensorSpec([], tf.int64)) as fib:
        n = fib.input(tf.int64, name="n")
        fib.output(tf.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2)))
    return fib


def sum_of_children() -> SubGraph:
    """A loop in a branch, a captured variable, two outputs."""
    weights = tf.Variable([1.0, 2.0], name="weights")
    outputs = {"sum": tf.TensorSpec([]), "count": tf.TensorSpec([], tf.int32)}
    with SubGraph("sum_of_children", outputs=outputs) as tree:
        node = tree.input(tf.int32, name="node")

        def children() -> tuple[tf.Tensor, tf.Tensor]:
            def add(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return i + 1, total + tree(2 * node + i)["sum"] * weights[0]

            return tf.while_loop(lambda i, _: i < 2, add, (tf.constant(1), tf.constant(0.0)))[1], tf.constant(2)

        total, count = tf.cond(node > 3, lambda: (tf.constant(1.0), tf.constant(0)), children)
        tree.output({"sum": total, "count": count})
    return tree


def labels(of: scene.Scene) -> list[str]:
    """The texts of a scene's boxes, in order."""
    return [f"{node.label} {node.detail}".strip() for node in of.nodes]


def test_a_body_shows_inputs_calls_and_branches_and_no_plumbing() -> None:
    """What a reader looks for."""
    made = scene.of_subgraph(fibonacci())
    assert labels(made) == ["n", "< 2", "if", "output"]
    (then, then_scene), (otherwise, else_scene) = made.nodes[2].parts
    assert (then, labels(then_scene)) == ("then", ["n", "result"])
    assert otherwise == "else"
    assert labels(else_scene) == ["n", "− 1", "fibonacci at n", "− 2", "fibonacci at n", "+", "result"]
    assert else_scene.edges == [(0, 1), (1, 2), (0, 3), (3, 4), (2, 5), (4, 5), (5, 6)]


def test_a_loop_shows_what_it_carries_and_not_tensorflows_counter() -> None:
    """Loops over the children of a node."""
    made = scene.of_subgraph(sum_of_children())
    assert labels(made)[-2:] == ["output['count']", "output['sum']"]
    loop = next(node for node in made.nodes[-3].parts[1][1].nodes if node.kind == scene.REGION)
    (condition, condition_scene), (_, body) = loop.parts
    assert (condition, labels(condition_scene)) == ("while", ["carried 1", "< 2", "go on?"])
    assert {"weights", "carried 1", "carried 2", "node"} <= set(labels(body))
    assert sum(node.kind == scene.INVOKE for node in body.nodes) == 1


@pytest.mark.parametrize("subgraph", [fibonacci, sum_of_children])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_subgraph_is_drawn_without_a_window(subgraph: object, ending: str) -> None:
    """The whole way."""
    file = io.BytesIO()
    draw(subgraph()).savefig(file, format=ending)  # type: ignore[operator]
    assert file.tell() > 5000


def test_boxes_never_overlap_and_edges_run_downwards() -> None:
    """On random graphs."""
    random = np.random.default_rng(0)
    for _ in range(20):
        boxes = [layout.Box(*random.uniform(0.2, 2, 2)) for _ in range(15)]
        edges = sorted({tuple(sorted(map(int, random.choice(15, 2, replace=False)))) for _ in range(25)})
        placed = layout.place(boxes, edges)
        for i, a in enumerate(boxes):
            assert a.x - a.width / 2 >= -1e-9
            assert a.x + a.width / 2 <= placed.width + 1e-9
            for b in boxes[i + 1 :]:
                beside = abs(a.x - b.x) >= (a.width + b.width) / 2
                assert beside or a.y + a.height <= b.y or b.y + b.height <= a.y
        for (source, target), route in zip(edges, placed.routes, strict=True):
            assert boxes[source].layer < boxes[target].layer
            assert all(a[1] <= b[1] for a, b in zip(route, route[1:], strict=False))


def test_the_layout_avoids_a_crossing_that_can_be_avoided() -> None:
    """Two edges that would cross in the order in which the boxes were made."""
    boxes = [layout.Box(1, 1) for _ in range(4)]
    layout.place(boxes, [(0, 3), (1, 2)])
    assert (boxes[0].x < boxes[1].x) == (boxes[3].x < boxes[2].x)


def test_a_body_that_is_not_there_cannot_be_drawn() -> None:
    """A declaration."""
    with pytest.raises(DefinitionError, match="its body was never defined"):
        draw(SubGraph("later", inputs=(), outputs=tf.TensorSpec([])))


def test_leaves_stand_side_by_side_and_parents_above() -> None:
    """The layout of a tree."""
    places = trees.layout(trees.as_arrays(parse_tree("(3 (2 a) (4 (2 b) (1 c)))")))
    np.testing.assert_allclose(places, [[0, 0], [1, 0], [2, 0], [1.5, 1], [0.75, 2]])


@pytest.mark.parametrize("values", [None, range(5), [0.5, -2.0, 1.0, np.nan, 3.0], np.array([-1, 0, 1, 2, 3])])
def test_a_tree_is_drawn_with_any_kind_of_values(values: object) -> None:
    """Classes, classes that are missing, numbers, numbers that are missing, nothing."""
    tree = parse_tree("(3 (2 costs) (4 (2 $5) (1 $_^2)))")
    file = io.BytesIO()
    draw(tree, values, tree.labels).savefig(file, format="png")  # type: ignore[arg-type]
    assert file.tell() > 5000


def test_arrays_are_a_tree_too() -> None:
    """As they come from `recgraph.testing` and from batches."""
    figure = draw(random_tree(6, np.random.default_rng(0)), title="six words")
    axes = figure.axes[0]
    assert axes.get_title() == "six words"
    assert len(axes.texts) == 6


def test_classes_have_a_legend_and_numbers_a_scale_with_zero_in_its_middle() -> None:
    """What a colour means."""
    tree = parse_tree("(? (? a) (? b))")
    assert [text.get_text() for text in draw(tree, [0, 2, 1], classes=3).legends[0].texts] == ["0", "1", "2"]
    scale = trees.Colours.of([-1.0, 3.0, 0.0], None, 3, 5, None)
    assert scale.limits == (-3.0, 3.0)
    np.testing.assert_allclose(scale.inner, [1 / 3, 1, 0.5])


@pytest.mark.parametrize(
    ("what", "values", "options", "message"),
    [
        ((["a"], [-1], [-1]), [0, 1], {}, r"a tree of 1 nodes needs 1 values; found shape \(2,\)"),
        ((["a"], [-1], [-1]), [5], {}, r"classes run from 0 to 4, -1 for none; found \[5.0\]"),
        ((["a"], [-1], [-1]), [0], {"names": ("bad", "good")}, "5 classes need 5 names; found 2"),
        ((["a", ""], [-1, 1], [-1, 0]), None, {}, r"node 1 has children \(1, 0\); in post-order both come before it"),
        ((["a"], [-1, 0], [-1]), None, {}, r"need one entry per node; found \[1, 2, 1\]"),
    ],
)
def test_what_does_not_fit_is_named(what: tuple, values: object, options: dict, message: str) -> None:
    """Found and expected."""
    with pytest.raises(ValueError, match=message):
        draw(what, values, **options)


def test_something_else_than_a_tree_is_refused() -> None:
    """And values for a SubGraph."""
    with pytest.raises(TypeError, match="expected a SubGraph, a Tree or arrays"):
        draw("tree")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a SubGraph is drawn without any"):
        draw(fibonacci(), [1])


def test_a_recursive_function_is_drawn_once_it_has_been_called() -> None:
    """Before that it has no body, and with two kinds of arguments it has two."""

    @subgraph
    def halvings(n: tf.Tensor) -> tf.Tensor:
        return tf.cond(n < 2, lambda: n * 0, lambda: 1 + halvings(n // 2))

    with pytest.raises(TypeError, match="stands for 0 SubGraphs"):
        draw(halvings)
    halvings(tf.constant(9))
    assert len(draw(halvings).axes) == 1
    halvings(tf.constant(9, tf.int64))
    with pytest.raises(TypeError, match="stands for 2 SubGraphs"):
        draw(halvings)


def test_a_picture_is_as_large_as_its_boxes() -> None:
    """Nothing is cut off."""
    figure = bodies.figure(scene.of_subgraph(fibonacci()), "fibonacci")
    width, height = figure.get_size_inches()
    for patch in figure.axes[0].patches:
        box = patch.get_path().get_extents()
        assert -0.01 <= box.x0 <= box.x1 <= width + 0.01
        assert -0.01 <= box.y0 <= box.y1 <= height + 0.01


def test_a_trace_graph() -> None:
    """Operations with their places, what is fed and fetched, branches side by side, and a loop as a box."""
    steps = Coexecuted(lambda x, n: [float(x := tf.sin(x) + float(k)) for k in range(n)])
    for n in (2, 3, 1, 4):
        steps(tf.constant(1.0), n)
    found = traces.of_steps(steps.phases.graph)
    assert [node.label for node in found.nodes] == ["start", "loop", "end"]
    (_, trip), *_ = found.nodes[1].parts
    assert [node.label for node in trip.nodes] == ["start", "Sin", "AddV2", "end"]
    assert trip.nodes[2].detail.endswith("fed input 1, fetched")
    assert trip.edges == [(0, 1), (1, 2), (2, 3)]
    steps_drawn = draw(steps, title="steps")
    assert {"steps", "loop", "Sin"} <= {text.get_text() for text in steps_drawn.axes[0].texts}


@pytest.mark.parametrize(
    "names", [("very negative", "negative", "neutral", "positive", "very positive"), ("n" * 60,) * 5]
)
@pytest.mark.parametrize("text", ["(3 film)", "(3 (2 not) (4 bad))", "(3 (2 not) (4 (3 so) (4 bad)))"])
def test_the_legend_and_the_title_of_a_small_tree_are_not_cut_off(names: tuple[str, ...], text: str) -> None:
    tree = parse_tree(text)
    figure = draw(tree, tree.labels, tree.labels, names=names, title="a title of a sentence " * 4)
    figure.draw_without_rendering()
    for shown in [figure.axes[0].title, *figure.legends]:
        extent = shown.get_window_extent()
        assert extent.x0 >= 0
        assert extent.x1 <= figure.bbox.x1


def test_a_notebook_shows_the_picture() -> None:
    """Without pyplot, which would keep every figure until somebody closes it."""
    for figure in (draw(fibonacci()), draw(parse_tree("(3 film)"))):
        assert figure._repr_png_().startswith(b"\x89PNG")
        assert figure not in map(pyplot.figure, pyplot.get_fignums())


def test_captured_arrays_bear_the_names_that_they_have_where_they_are_drawn() -> None:
    word, left = tf.constant([3, 5, -1]), tf.constant([-1, -1, 0])
    with SubGraph("leftmost", outputs=tf.TensorSpec([], tf.int32)) as leftmost:
        node = leftmost.input(tf.int32, name="node")
        leftmost.output(tf.cond(left[node] < 0, lambda: word[node], lambda: leftmost(left[node])))
    texts = {text.get_text() for text in draw(leftmost).axes[0].texts}
    assert {"word", "left"} <= texts

    def elsewhere(subgraph: SubGraph) -> object:
        return draw(subgraph)

    assert {"word", "left"} <= {text.get_text() for text in elsewhere(leftmost).axes[0].texts}  # type: ignore[attr-defined]
    assert not {"word", "left"} & set(labels(scene.of_subgraph(leftmost)))


def test_a_subgraph_can_be_drawn_while_a_tf_function_is_traced() -> None:
    """AutoGraph does not rewrite the drawing, and the names of captured tensors are still found."""
    drawn = []

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def run(leaves: tf.Tensor) -> tf.Tensor:
        with SubGraph("read", outputs=tf.TensorSpec([])) as read:
            read.output(leaves[read.input(tf.int32)])
        drawn.append(draw(read))
        return read(0)

    assert float(run(tf.constant([2.0]))) == 2.0
    assert "leaves" in {text.get_text() for axes in drawn[0].axes for text in axes.texts}


class Tree(rg.keras.TreeLayer):
    """A node has a word and two children."""

    output_size = 4

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.embed = keras.layers.Embedding(10, 4, name="embed")
        self.combine = keras.layers.Dense(4, name="combine")

    def node(self, inputs: Any, child: Any) -> Any:
        word, left, right = tf.unstack(inputs, axis=1)
        return self.combine(tf.concat([self.embed(word), child(left), child(right)], 1))


def test_a_layer_is_drawn_as_its_body() -> None:
    layer = Tree(name="tree")
    with pytest.raises(DefinitionError, match="layer 'tree' has not been called") as error:
        draw(layer)
    assert error.value.next_step == "call it on a batch first"
    layer(tf.constant([[[1, -1, -1]]]))
    made = scene.of_subgraph(layer.recgraph_subgraph())
    calls = [inner for node in made.nodes for _, part in node.parts for inner in labels(part) if "tree" in inner]
    assert calls == ["tree at left", "tree at right"]
    draw(layer).savefig(io.BytesIO(), format="png")
    with pytest.raises(TypeError, match="values belong to the nodes of a tree"):
        draw(layer, values=[1.0])


def test_a_layer_of_a_subgraph() -> None:
    sub = rg.keras.SubGraphLayer(fibonacci())
    assert layers.subgraph_of(sub).name == "fibonacci"
    with pytest.raises(TypeError, match="layer 'dense' is a Dense, which has no recursion"):
        draw(keras.layers.Dense(1, name="dense"))


def test_a_functional_model() -> None:
    """A layer that is called twice is one box, and has the edges of both calls."""
    x = keras.Input((None, 3), dtype="int32", name="trees")
    tree = Tree(name="tree")
    joined = keras.layers.Concatenate(name="join")([tree(x), tree(x)])
    model = keras.Model(x, [keras.layers.Dense(2, name="dense")(joined), joined])
    made = layers.of_model(model, {})
    assert labels(made) == [
        "trees (None, None, 3)",
        "tree: Tree, 92 parameters",
        "join Concatenate",
        "dense Dense, 18 parameters",
        "output",
    ]
    assert sorted(made.edges) == [(0, 1), (1, 2), (2, 3), (2, 4), (3, 4)]
    ((name, body),) = made.nodes[1].parts
    assert name == "each example"
    assert "Concat" in labels(body)
    draw(model).savefig(io.BytesIO(), format="png")


def test_a_sequential_model_in_another() -> None:
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="first")], name="inner")
    model = keras.Sequential([keras.Input((4,), name="given"), inner, keras.layers.Dense(1, name="last")])
    made = layers.of_model(model, {})
    assert [node.label for node in made.nodes] == ["inner: Sequential, 15 parameters", "last", "output"] or [
        node.label for node in made.nodes
    ] == ["given", "inner: Sequential, 15 parameters", "last", "output"]
    assert all(source < target for source, target in made.edges)
    assert len(made.edges) == len(made.nodes) - 1
    draw(model).savefig(io.BytesIO(), format="png")


def test_a_model_that_is_a_subclass_has_no_edges() -> None:
    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.tree, self.last = Tree(name="tree"), keras.layers.Dense(1, name="last")

        def call(self, x: Any) -> Any:
            return self.last(self.tree(x))

    model = Model()
    model(tf.constant([[[1, -1, -1]]]))
    made = layers.of_model(model, {})
    assert (labels(made), made.edges) == (["tree: Tree, 92 parameters", "last Dense, 5 parameters"], [])
    draw(model).savefig(io.BytesIO(), format="png")


def texts_of(figure: Any) -> set[str]:
    return {text.get_text() for text in figure.axes[0].texts}


def test_a_function_that_has_become_graphs() -> None:
    """A box for each, with what it computes."""
    weight = tf.Variable(2.0, name="weight")

    @rg.function(mode="speculate")
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x) * weight

    with pytest.raises(TypeError, match=r"draw: .*step has no graph yet: .* 3 of them, and it was called 0 times"):
        draw(step)
    for _ in range(6):
        step(tf.ones([3]))
    for _ in range(6):
        step(tf.ones([2, 2]))
    shown = texts_of(draw(step))
    assert any("operations, ran" in text for text in shown)
    assert {"Sin", "×", "weight"} <= shown


def test_a_function_whose_parts_have_become_graphs() -> None:
    """What was converted alone, and what is co-executed, each with a title that is inside of its box."""

    @rg.function
    def odd(x: tf.Tensor) -> tf.Tensor:
        y = tf.tanh(x) * 2.0
        memoryview(y.numpy())
        return tf.reduce_sum(tf.exp(y) + tf.sin(y) * tf.cos(y))

    for _ in range(60):
        odd(tf.ones([3]))
    figure = draw(odd)
    titles = [text for text in figure.axes[0].texts if "operations, ran" in text.get_text()]
    assert titles
    assert {"input", "Exp", "Sin", "Cos", "Sum", "output"} <= texts_of(figure)
    figure.draw_without_rendering()
    boxes = [patch.get_window_extent() for patch in figure.axes[0].patches]
    for title in titles:
        shown = title.get_window_extent()
        assert any(box.x0 <= shown.x0 and shown.x1 <= box.x1 and box.y0 <= shown.y0 <= box.y1 for box in boxes)


def test_a_function_that_is_not_converted() -> None:
    """What is drawn is what is known of it: parts that became graphs; else the message says why."""

    @rg.function(mode="speculate")
    def step(x: tf.Tensor) -> float:
        return float(np.asarray(memoryview(x.numpy()))[0])

    for _ in range(6):
        step(tf.ones([3]))
    with pytest.raises(TypeError, match=r"draw: .*step has no graph: "):
        draw(step)


def test_a_layer_says_what_it_holds() -> None:
    layer = Tree(name="tree", engine="batched")
    layer(tf.constant([[[1, -1, -1]]]))
    lines = layer.explain().splitlines()
    assert lines[:3] == [
        "layer 'tree' (Tree): 92 parameters, output_size 4, engine 'batched'",
        "  embed (Embedding): 40 parameters",
        "  combine (Dense): 52 parameters",
    ]
    assert any("call tree" in line for line in lines[3:])


def test_a_layer_with_weights_of_its_own() -> None:
    class Scale(rg.keras.SubGraphLayer):
        output_size = 1

        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(1,), name="scale")

        def body(self, x: Any, recurse: Any) -> Any:
            return x * tf.convert_to_tensor(self.scale)

    layer = Scale(name="scaled")
    layer(tf.ones([2, 1]))
    assert layer.explain().splitlines()[:2] == [
        "layer 'scaled' (Scale): 1 parameter, output_size 1, engine 'auto'",
        "  scale: 1 parameter, shape (1,)",
    ]


CHINESE = (["好", "电影", ""], [-1, -1, 0], [-1, -1, 1])


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fonts of a system, to be filled."""
    paths: list[str] = []
    monkeypatch.setattr(fonts, "_installed", lambda: tuple(paths))
    return paths


def test_letters_that_no_font_has_are_named_once(installed: list[str]) -> None:
    with pytest.warns(UserWarning, match="^no font has 好影日本电, so pictures have boxes in their place: ") as warned:
        draw(CHINESE, title="日本").savefig(io.BytesIO(), format="png")
    assert len(warned) == 1
    assert "install one, such as Noto Sans CJK" in str(warned[0].message)


def test_letters_are_taken_from_an_installed_font_that_has_them(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here another font of matplotlib's stands for a Chinese one."""
    other = font_manager.findfont("STIXGeneral")
    known = fonts._letters_of
    monkeypatch.setattr(
        fonts, "_letters_of", lambda path: known(path) | set("好电影日") if path == other else known(path)
    )
    installed += ["/no/such/font.ttf", font_manager.findfont("DejaVu Serif"), other]
    families = ["STIXGeneral"]
    assert fonts._fonts_for(frozenset("好日")) == (families, frozenset())
    assert fonts._fonts_for(frozenset("好語")) == (families, frozenset("語"))
    figure = draw(CHINESE)
    (word,) = (text for text in figure.axes[0].texts if text.get_text() == "电影")
    assert word.get_fontfamily()[-1] == "STIXGeneral"
    with SubGraph("好", outputs=tf.TensorSpec([])) as body:
        body.output(body.input(tf.float32))
    draw(body).savefig(io.BytesIO(), format="png")


def test_letters_that_are_there_look_for_no_other_font(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_installed", lambda: pytest.fail("it looked"))
    draw((["naïve", "Größe", ""], [-1, -1, 0], [-1, -1, 1]))
