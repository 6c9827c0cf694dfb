"""A network over Python's syntax trees: it tells what belongs into a hole in the code of the standard library.

One part of a function, a statement or an expression, is taken out; the network reads the rest of the tree and says of
which type the part was. In plain TensorFlow or PyTorch, somebody turns each batch of trees, with any number of children
at a node, into levels and loops over these, or the trees run node after node.

    python examples/syntax_trees.py
"""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import recgraph as rg

import keras
import numpy as np
import tensorflow as tf

PARTS = ["Name", "Attribute", "Call", "Constant", "Subscript", "Compare", "BinOp", "Tuple"]  # expressions
PARTS += ["Expr", "Assign", "If", "Return"]  # statements
TYPES = sorted(name for name, each in vars(ast).items() if isinstance(each, type) and issubclass(each, ast.AST))
HOLE, SIZE = len(TYPES), 48
Rows = np.ndarray  # of a tree, int32 [N, 3]: the type of a node, its first child, the next node beside it, or -1


def functions(source: str) -> list[ast.FunctionDef]:
    """The functions of a module that have a few to a hundred parts."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return [function for function in found if 15 <= len(parts(function)) <= 100]


def parts(function: ast.FunctionDef) -> list[ast.AST]:
    """The nodes that may be taken out."""
    return [node for node in ast.walk(function) if type(node).__name__ in PARTS]


def rows(root: ast.AST, hole: ast.AST | None = None) -> Rows:
    """A tree with a hole; its root is the first row."""
    made: list[list[int]] = []

    def add(node: ast.AST) -> int:
        number = len(made)
        made.append([HOLE if node is hole else TYPES.index(type(node).__name__), -1, -1])
        before, place = number, 1
        for child in ast.iter_child_nodes(node) if node is not hole else ():
            if not isinstance(child, ast.expr_context):  # whether a name is read or assigned to would tell too much
                made[before][place] = len(made)
                before, place = add(child), 2
        return number

    add(root)
    return np.array(made, np.int32)


def holes(count: int, seed: int) -> Iterator[tuple[str, Rows, int]]:
    """So many trees with a hole from each function of the library's modules: module, tree, and what was there."""
    rng = np.random.default_rng(seed)
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for function in functions(path.read_text("utf-8")):
            for hole in rng.choice(np.array(parts(function)), count, replace=False):
                yield path.stem, rows(function, hole), PARTS.index(type(hole).__name__)


def joined(trees: Sequence[Rows]) -> tuple[np.ndarray, np.ndarray]:
    """Trees as rows of one table, and their roots."""
    roots = np.cumsum([0, *map(len, trees)])[:-1].astype(np.int32)
    moved = [np.where(tree < 0, -1, tree + [0, root, root]) for tree, root in zip(trees, roots, strict=True)]
    return np.concatenate(moved).astype(np.int32), roots


class Reader(keras.Model):
    """A Tree-LSTM over first children and next siblings: logits of what was in the hole, float32 `[B, parts]`."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gates = keras.layers.Embedding(len(TYPES) + 1, SIZE), keras.layers.Dense(5 * SIZE)
        self.drop, self.out = keras.layers.Dropout(0.2), keras.layers.Dense(len(PARTS))

    def call(self, table: tf.Tensor, roots: tf.Tensor, training: bool = False) -> tf.Tensor:
        state, nothing = tf.TensorSpec([1, SIZE]), tf.zeros([1, SIZE])
        with rg.SubGraph("tree", tf.TensorSpec([], tf.int32), (state, state), engine="batched") as tree:
            kind, first, following = tf.unstack(tf.gather(table, tree.declared_arguments()), num=3)

            def read(node: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return tf.cond(node < 0, lambda: (nothing, nothing), lambda: tuple(tree(node)))

            (below, cell_below), (beside, cell_beside) = read(first), read(following)
            gates = self.gates(tf.concat([self.embedding(kind[None]), below, beside], 1))
            i, f, g, o, new = tf.split(gates, 5, 1)
            cell = tf.sigmoid(i) * tf.tanh(new) + tf.sigmoid(f + 1) * cell_below + tf.sigmoid(g + 1) * cell_beside
            tree.output((tf.sigmoid(o) * tf.tanh(cell), cell))
        return self.out(self.drop(tf.reshape(tree.map(roots)[0], [-1, SIZE]), training=training))


class Bag(keras.Model):
    """The baseline: a network that sees how many nodes of each type there are, and not where."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.drop = keras.layers.Dense(64, "relu"), keras.layers.Dropout(0.2)
        self.out = keras.layers.Dense(len(PARTS))

    def call(self, table: tf.Tensor, roots: tf.Tensor, training: bool = False) -> tf.Tensor:
        number = tf.searchsorted(roots, tf.range(tf.shape(table)[0]), side="right") - 1
        counts = tf.math.unsorted_segment_sum(tf.one_hot(table[:, 0], len(TYPES) + 1), number, tf.size(roots))
        return self.out(self.drop(self.hidden(tf.math.log1p(counts)), training=training))


def main(epochs: int = 6) -> dict[str, float]:
    """Trains both on four fifths of the modules, and gives how often they are right about the others."""
    keras.utils.set_random_seed(1)
    data = list(holes(4, seed=1))
    rng = np.random.default_rng(1)
    modules = sorted({module for module, _, _ in data})
    others = set(rng.choice(modules, len(modules) // 5, replace=False))
    train, test = ([each[1:] for each in data if (each[0] in others) == held] for held in (False, True))
    answers = np.array([answer for _, answer in test])
    found = {"the most frequent part": float(np.mean(answers == np.argmax(np.bincount([each[1] for each in train]))))}
    for name, model in {"a bag of nodes": Bag(), "the tree": Reader()}.items():
        loss, optimizer = keras.losses.SparseCategoricalCrossentropy(from_logits=True), keras.optimizers.Adam(0.005)

        @tf.function(reduce_retracing=True)
        def step(table: tf.Tensor, roots: tf.Tensor, true: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                value = loss(true, model(table, roots, training=True))  # noqa: B023
            optimizer.apply(tape.gradient(value, model.trainable_weights), model.trainable_weights)  # noqa: B023

        for _ in range(epochs):
            for chosen in np.array_split(rng.permutation(len(train)), len(train) // 64):
                trees, true = zip(*[train[i] for i in chosen], strict=True)
                step(*joined(trees), np.array(true))
        logits = model(*joined([tree for tree, _ in test])).numpy()
        found[name] = float(np.mean(logits.argmax(1) == answers))
    return found


if __name__ == "__main__":
    for name, value in main().items():
        print(f"accuracy of {name}: {value:.3f}")
