"""Random trees and graphs are written in the form of each source, read, made batches, and are what they were."""

from __future__ import annotations

import ast
import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import keras
import nltk
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import recgraph as rg
from tests import spacy_stand_in
from tests.trees import random_trees
from tests.trees.random_trees import Record, in_order, linked

trees = rg.trees


def records(roots: list[Record]) -> Any:
    made: dict[int, dict[str, Any]] = {}
    for root in roots:
        for node in in_order(root):
            made[id(node)] = {"word": node.word} | ({} if node.number is None else {"number": node.number})
        for node in in_order(root):
            made[id(node)]["children"] = [made[id(child)] for child in node.children]
    return [made[id(root)] for root in roots]


def nested(roots: list[Record]) -> Any:
    return trees.from_nested(records(roots), children="children")


def objects(roots: list[Record]) -> Any:
    return trees.from_nested(roots, children=lambda node: node.children, features=["word", "number"])


def from_json(roots: list[Record]) -> Any:
    return trees.from_json([json.dumps(record) for record in records(roots)], children="children")


def from_nltk(roots: list[Record]) -> Any:
    def tree(node: Record) -> Any:
        return nltk.Tree((node.word, node.number), [tree(child) for child in node.children])

    forest = trees.from_nltk([tree(root) for root in roots])
    labels = forest.columns.pop("label", None)
    if labels is None:  # there are no trees
        return forest
    for at, name in enumerate(("word", "number")):
        pairs = [(n, label[at]) for n, label in zip(labels.nodes, labels.values, strict=True) if label[at] is not None]
        forest.columns[name] = type(labels)([n for n, _ in pairs], [value for _, value in pairs])
    return forest


def from_ast(roots: list[Record]) -> Any:
    """Lists in lists; only the shape is compared."""

    def tree(node: Record) -> ast.AST:
        return ast.List([tree(child) for child in node.children], ast.Load())

    forest = trees.from_ast([tree(root) for root in roots])
    if roots:
        assert set(forest.values("type")) == {"List"}
    return forest


def from_xml(roots: list[Record]) -> Any:
    def element(node: Record) -> Any:
        made = ET.Element("node", {"word": node.word} | ({} if node.number is None else {"number": str(node.number)}))
        made.extend(element(child) for child in node.children)
        return made

    forest = trees.from_xml([ET.tostring(element(root)) for root in roots])
    for name in ("word", "number"):
        column = forest.columns.pop(f"@{name}", None)
        if column is not None:
            column.values[:] = [value if name == "word" else int(value) for value in column.values]
            forest.columns[name] = column
    return forest


def from_networkx(roots: list[Record]) -> Any:
    nx = pytest.importorskip("networkx")
    graphs = []
    for root in roots:
        graph = nx.DiGraph()
        for node in in_order(root):
            graph.add_node(id(node), word=node.word, number=node.number)
        graph.add_edges_from((id(node), id(child)) for node in in_order(root) for child in node.children)
        graphs.append(graph)
    return trees.from_networkx(graphs)


def rows(roots: list[Record]) -> list[dict[str, Any]]:
    made = []
    for number, root in enumerate(roots):
        parents = {id(child): id(node) for node in in_order(root) for child in node.children}
        made += [
            {"tree": number, "id": id(n), "parent": parents.get(id(n)), "word": n.word, "number": n.number}
            for n in in_order(root)
        ]
    return made


def from_parents(roots: list[Record]) -> Any:
    table = {name: [row[name] for row in rows(roots)] for name in ("tree", "id", "parent", "word", "number")}
    features = {name: table[name] for name in ("word", "number")}
    return trees.from_parents(table["parent"], table["id"], table["tree"], features)


def from_csv(roots: list[Record]) -> Any:
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, ["id", "number", "word", "parent", "tree"])
    writer.writeheader()
    writer.writerows(rows(roots))
    stream.seek(0)
    return trees.from_csv(stream, tree="tree")


def in_order_of_words(roots: list[Record]) -> list[tuple[list[Record], list[int]]]:
    """The nodes of each tree, and the number of each one's head, its own at the root."""
    found = []
    for root in roots:
        nodes = in_order(root)
        numbers = {id(node): number for number, node in enumerate(nodes)}
        heads = list(range(len(nodes)))
        for node in nodes:
            for child in node.children:
                heads[numbers[id(child)]] = numbers[id(node)]
        found.append((nodes, heads))
    return found


def from_conllu(roots: list[Record]) -> Any:
    lines = []
    for nodes, heads in in_order_of_words(roots):
        for number, (node, head) in enumerate(zip(nodes, heads, strict=True)):
            text = "_" if node.number is None else str(node.number)
            up = 0 if head == number else head + 1
            lines.append("\t".join([str(number + 1), node.word, text, "_", "_", "_", str(up), "_", "_", "_"]))
        lines.append("")
    forest = trees.from_conllu("\n".join(lines))
    column = forest.columns.pop("lemma", None)
    if column is not None:
        column.values[:] = map(int, column.values)
        forest.columns["number"] = column
    return forest


def from_spacy(roots: list[Record]) -> Any:
    modules = spacy_stand_in.modules()
    docs = [
        modules["spacy.tokens"].Doc(
            modules["spacy.vocab"].Vocab(), [node.word for node in nodes], heads=heads, deps=["d"] * len(heads)
        )
        for nodes, heads in in_order_of_words(roots)
    ]
    return trees.from_spacy(docs)


SOURCES: dict[str, tuple[Callable[[list[Record]], Any], tuple[str, ...], bool]] = {
    # how it is written and read, what it has of a node, and whether nodes may have several parents
    "nested": (nested, ("word", "number"), True),
    "objects": (objects, ("word", "number"), True),
    "networkx": (from_networkx, ("word", "number"), True),
    "json": (from_json, ("word", "number"), False),
    "nltk": (from_nltk, ("word", "number"), False),
    "ast": (from_ast, (), False),
    "xml": (from_xml, ("word", "number"), False),
    "parents": (from_parents, ("word", "number"), False),
    "csv": (from_csv, ("word", "number"), False),
    "conllu": (from_conllu, ("word", "number"), False),
    "spacy": (from_spacy, ("word",), False),
}


def expected(roots: list[Record], names: tuple[str, ...]) -> list[list[tuple[Any, ...]]]:
    return [
        [(*(node[("word", "number").index(name)] for name in names), node[2]) for node in linked(root)]
        for root in roots
    ]


def decoded(encoder: Any, batch: Any, names: tuple[str, ...]) -> list[list[tuple[Any, ...]]]:
    """Batches as the trees that they were made of."""
    found = []
    for tree in encoder.decode(batch):
        nodes: dict[int, Any] = {}
        stack = [tree]
        while stack:
            node = stack.pop()
            if id(node) not in nodes:
                nodes[id(node)] = node
                stack += reversed(node["children"])
        numbers = {identity: number for number, identity in enumerate(nodes)}
        found.append(
            [(*(n.get(name) for name in names), [numbers[id(c)] for c in n["children"]]) for n in nodes.values()]
        )
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_trees_are_what_they_were(name: str) -> None:
    write_and_read, names, is_shared = SOURCES[name]

    @settings(max_examples=40)
    @given(st.lists(random_trees.trees(shared=is_shared), max_size=4))
    def check(roots: list[Record]) -> None:
        forest = write_and_read(roots)
        encoder = trees.Encoder(features={} if not names else None).adapt(forest)
        found = expected(roots, names)
        assert decoded(encoder, encoder.batch(forest), names) == found
        in_batches = encoder.dataset(forest, 3)
        assert [tree for batch in in_batches for tree in decoded(encoder, batch, names)] == found
        flat = encoder.flat(forest)
        assert flat["roots"].numpy().tolist() == forest.offsets[:-1].tolist()
        assert flat["children"].flat_values.numpy().tolist() == forest.children.tolist()
        pairs = list(forest.at_nodes(np.arange(len(forest.objects))))
        assert [number for _, number in pairs] == list(range(len(forest.objects)))
        assert all(item is own for (item, _), own in zip(pairs, forest.objects, strict=True))

    check()


class Sum(rg.keras.TreeLayer):
    """A state of the word of a node and of the states of its children."""

    output_size = 3

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words, self.dense = keras.layers.Embedding(words, 3), keras.layers.Dense(3, "tanh")

    def node(self, inputs: Any, child: Any) -> Any:
        below = tf.reduce_sum(child.map(inputs["children"]), 0, keepdims=True)
        return self.dense(tf.concat([self.words(inputs["word"]), below], 1))


TREES = [
    Record("a", 1, [Record("b", None, []), Record("the", 2, [Record("a", 3, [])])]),
    Record("x_1", None, []),
    Record("b", 0, [Record("b", 2, [])]),
]


def test_a_step_of_training_on_trees_of_each_source() -> None:
    model = keras.Sequential([Sum(10), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.02), "mse")
    for name, (write_and_read, _, _) in SOURCES.items():
        forest = write_and_read(TREES)
        if name == "ast":
            forest.columns["word"] = forest.columns.pop("type")
        for root, answer in zip(forest.roots, (1.0, 0.0, -1.0), strict=True):
            forest.columns.setdefault("answer", type(forest.columns["word"])()).nodes.append(int(root))
            forest.columns["answer"].values.append(answer)
        encoder = trees.Encoder({"word": trees.Category(random_trees.WORDS)}, label="answer").adapt(forest)
        losses = model.fit(encoder.dataset(forest, 3), epochs=3, verbose=0).history["loss"]
        assert losses[-1] < losses[0], name
        predicted = model.predict(encoder.dataset(forest, 3, labels=None), verbose=0)
        pairs = list(forest.at_roots(predicted))
        assert [item for item, _ in pairs] == [forest.objects[int(root)] for root in forest.roots]
        assert [value for _, value in pairs] == predicted[:, 0].tolist()
