"""`Encoder`: forests as batches for `TreeLayer`, `SubGraph.map` and `tf.data`."""

from __future__ import annotations

import collections
import copy
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from recgraph import files
from recgraph.errors import TreeError
from recgraph.trees.features import KINDS, Category, FeatureKind, Number, Values, Words, guessed
from recgraph.trees.forest import FeatureColumn, Forest

Batch: TypeAlias = dict[str, Any]
CHILDREN = "children"


class Encoder:
    """What the features of nodes are, and how forests become batches.

    Args:
        features: by name, each a `Number`, `Vector`, `Category` or `Words`. By default all that the data has which the
            encoder is adapted to: numbers, categories where values are texts, vectors where they are lists of numbers.
        label: the name of the feature that is to be predicted, at some nodes or all; it is none of the features.
        label_kind: `Number()` or `Category()`; by what its values are by default.

    Attributes:
        features: these, in the order of their names.

    Examples:
        >>> import recgraph as rg
        >>> forest = rg.trees.from_nested([{"op": "+", "of": [{"value": 1}, {"value": 2}]}], children="of")
        >>> encoder = rg.trees.Encoder().adapt(forest)
        >>> batch = encoder.batch(forest)
        >>> batch["children"].to_list(), batch["op"].to_list()
        ([[[1, 2], [], []]], [[2, 1, 1]])
        >>> batch["value"].to_list()
        [[[0.0, 0.0], [1.0, 1.0], [2.0, 1.0]]]
    """

    def __init__(
        self,
        features: Mapping[str, FeatureKind] | None = None,
        label: str | None = None,
        label_kind: Number | Category | None = None,
    ) -> None:
        self.features: dict[str, Any] = {name: copy.copy(each) for name, each in (features or {}).items()}
        self._guesses = features is None
        self.label, self.label_kind = label, copy.copy(label_kind)
        self._roles: tuple[str, ...] | None = None

    def adapt(self, forest: Forest) -> Encoder:
        """Takes from the data for training what is not given: which features there are, sizes, vocabularies.

        Returns:
            The encoder.

        Raises:
            TreeError: the values of a feature are of several kinds, or not of its kind; a name is taken.
        """
        if self._guesses:
            for name in sorted(set(forest.columns) - {self.label}):
                self.features[name] = guessed(_values(forest, name))
        for name, feature in self.features.items():
            if name == CHILDREN or name in forest.roles:
                raise TreeError(
                    f"a feature cannot be named {name!r}: batches have the children there",
                    next_step="read it under another name, by a function: features={'name': lambda item: ...}",
                )
            feature.adapt(_values(forest, name))
        if self.label is not None:
            values = _values(forest, self.label)
            if self.label_kind is None:
                kind = guessed(values)
                if not isinstance(kind, Number | Category):
                    raise TreeError(f"a label is a number or a category, and {self.label!r} is neither")
                self.label_kind = kind
            self.label_kind.adapt(values)
        self._roles = tuple(forest.roles)
        return self

    def batch(self, forest: Forest) -> Batch:
        """All trees as one batch for `TreeLayer`.

        Args:
            forest: the trees; there may be none.

        Returns:
            A dict with ragged tensors: a feature has `[B, N, ...]`, as its kind says; `children` has the positions of
            the children in their tree, int32 `[B, N, children]`; each name of one child has its position or -1, int32
            `[B, N]`. The root is at position 0.

        Raises:
            TreeError: the encoder has not been adapted, or a value is not of its kind.
        """
        arrays = self._arrays(forest)
        return {name: _ragged(array, forest.offsets) for name, array in arrays.items()}

    def flat(self, forest: Forest) -> Batch:
        """All trees as tables of nodes, for `SubGraph.map`.

        Returns:
            A dict with tensors: a feature has `[N, ...]`, `Words` is ragged; `children` has the numbers of children,
            int32 ragged `[N, children]`; each name of one child has its number or -1, int32 `[N]`; `roots` has the
            numbers of the roots, int32 `[B]`.

        Raises:
            TreeError: see `batch`.
        """
        found: Batch = {}
        for name, array in self._arrays(forest, of_trees=False).items():
            found[name] = tf.constant(array) if isinstance(array, np.ndarray) else _split(*array)
        return found | {"roots": tf.constant(forest.roots, tf.int32)}

    def dataset(
        self, forest: Forest, batch_size: int, labels: str | None = "roots", shuffle: int | None = None
    ) -> tf.data.Dataset:
        """The trees as a dataset of batches; no Python runs while it is read.

        Args:
            forest: the trees.
            batch_size: trees in a batch; the last one may have fewer.
            labels: "roots" for pairs of a batch and the labels of its roots `[B]`, "nodes" for a batch, labels of all
                its nodes `[all nodes]` and their weights, 0.0 where there is no label; None, or an encoder without a
                label, for batches alone.
            shuffle: a seed for another order in each epoch; the order of the forest by default.

        Raises:
            TreeError: see `batch`; a root has no label, and `labels` is "roots".
            ValueError: `batch_size` is below 1, or there are no such labels.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; found {batch_size}")
        if labels not in ("roots", "nodes", None):
            raise ValueError(f"labels must be 'roots', 'nodes' or None; found {labels!r}")
        whole: Any = self.batch(forest)
        if self.label is not None and labels == "roots":
            whole = (whole, tf.constant(self._root_labels(forest)))
        elif self.label is not None and labels == "nodes":
            known, weights = self._labels(forest)
            whole = (whole, _ragged(known, forest.offsets), _ragged(weights, forest.offsets))
        has_weights = isinstance(whole, tuple) and len(whole) == 3
        order = tf.data.Dataset.range(len(forest))
        if shuffle is not None:
            order = order.shuffle(max(len(forest), 1), seed=shuffle)

        def gathered(rows: tf.Tensor) -> Any:
            found = tf.nest.map_structure(lambda table: tf.gather(table, rows), whole)
            return (found[0], *(part.flat_values for part in found[1:])) if has_weights else found

        return order.batch(batch_size).map(gathered).prefetch(2)

    def unknown(self, forest: Forest) -> dict[str, collections.Counter[Any]]:
        """For each feature with a vocabulary, the values that are not in it, and how often each is there."""
        found = {}
        for name, feature in self.features.items():
            if isinstance(feature, Category | Words):
                found[name] = feature.unknown(_values(forest, name))
        return found

    def decode(self, batch: Batch) -> list[Any]:
        """What a model sees of a batch: each tree as a dict of its features, with a list of such under `children`.

        A node with several parents is one dict. Numbers are those of float32.
        """
        table = {name: [list(rows) for rows in _rows(tensor)] for name, tensor in batch.items()}
        trees = []
        for number, below in enumerate(table[CHILDREN]):
            nodes: list[dict[str, Any]] = [
                {name: feature.decode(table[name][number][node]) for name, feature in self.features.items()}
                for node in range(len(below))
            ]
            for node, children in zip(nodes, below, strict=True):
                node[CHILDREN] = [nodes[child] for child in children]
            for name in self._roles or ():
                for node, child in zip(nodes, table[name][number], strict=True):
                    node[name] = None if child < 0 else nodes[child]
            trees.append(nodes[0])
        return trees

    def labels_of(self, ids: Any) -> list[Any]:
        """The labels with these numbers, for instance of `predictions.argmax(-1)`; what is no category stays."""
        flat = np.asarray(ids)
        if not isinstance(self.label_kind, Category):
            return list(flat.tolist())
        words = self.label_kind.words or ()
        return [words[number] for number in flat.tolist()]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the encoder as JSON, for those who predict with the model.

        Raises:
            OSError: the file cannot be written.
        """
        config = {
            "features": {name: _described(feature) for name, feature in self.features.items()},
            "label": self.label,
            "label_kind": _described(self.label_kind),
            "roles": self._roles,
        }
        files.write_text(path, json.dumps(config, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Encoder:
        """The encoder that `save` wrote.

        Raises:
            TreeError: the file is of something else.
            OSError: the file cannot be read.
        """
        try:
            config = json.loads(Path(path).read_text(encoding="utf-8"))
            made = cls({name: _made(each) for name, each in config["features"].items()}, config["label"])
            made.label_kind = _made(config["label_kind"])
            made._roles = None if config["roles"] is None else tuple(config["roles"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise TreeError("a file has no encoder", where=os.fspath(path), found=repr(error)) from None
        return made

    def _arrays(self, forest: Forest, of_trees: bool = True) -> dict[str, Any]:
        """Arrays for all nodes; with row splits where a node has several values."""
        self._check(forest)
        own = np.repeat(forest.offsets[:-1], np.diff(forest.offsets)).astype(np.int32)  # the root of each node's tree
        if not of_trees:
            own = np.zeros_like(own)
        found: dict[str, Any] = {name: feature.encode(_values(forest, name)) for name, feature in self.features.items()}
        found[CHILDREN] = (forest.children - np.repeat(own, np.diff(forest.splits)), forest.splits)
        for name, numbers in forest.roles.items():
            found[name] = np.where(numbers < 0, numbers, numbers - own)
        return found

    def _check(self, forest: Forest) -> None:
        if self._roles is None:
            raise TreeError("the encoder has not been adapted", next_step="encoder.adapt(forest), with training data")
        if tuple(forest.roles) != self._roles:
            raise TreeError(
                "the forest was read with other names of children than the one that the encoder was adapted to",
                found=", ".join(forest.roles) or "a list of children",
                expected=", ".join(self._roles) or "a list of children",
                next_step="read both in the same way: children=...",
            )

    def _labels(self, forest: Forest) -> tuple[np.ndarray, np.ndarray]:
        """The labels of all nodes, and 1.0 for those that have one."""
        assert self.label is not None
        values = _values(forest, self.label)
        weights = np.zeros(values.count, np.float32)
        weights[values.column.nodes] = 1.0
        if isinstance(self.label_kind, Category):
            return np.maximum(self.label_kind.encode_labels(values), 0), weights
        return Number(optional=True).encode(values)[:, 0], weights

    def _root_labels(self, forest: Forest) -> np.ndarray:
        labels, weights = self._labels(forest)
        is_there = weights[forest.roots] > 0
        if not is_there.all():
            number = int(np.argmin(is_there))
            raise TreeError(
                "the root of a tree has no label",
                where=forest.places(int(forest.roots[number])),
                expected=f"{self.label!r} at every root",
                next_step="leave the tree out, or take the labels of nodes: labels='nodes'",
            )
        return labels[forest.roots]


def _values(forest: Forest, name: str) -> Values:
    """The values of a feature, NaN taken for none."""
    column = forest.columns.get(name, FeatureColumn())
    if any(value != value for value in column.values if isinstance(value, float)):
        pairs = [(n, v) for n, v in zip(column.nodes, column.values, strict=True) if not _is_nan(v)]
        column = FeatureColumn([node for node, _ in pairs], [value for _, value in pairs])
    return Values(name, column, len(forest.objects), forest.places)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _ragged(array: Any, offsets: np.ndarray) -> tf.RaggedTensor:
    """The values of all nodes by trees."""
    values = tf.constant(array) if isinstance(array, np.ndarray) else _split(*array)
    return tf.RaggedTensor.from_row_splits(values, offsets, validate=False)


def _split(values: np.ndarray, splits: np.ndarray) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_splits(tf.constant(values), splits, validate=False)


def _rows(tensor: Any) -> Sequence[Any]:
    """The entries of each tree, as arrays."""
    starts = tensor.row_splits.numpy()
    inner = tensor.values
    if isinstance(inner, tf.RaggedTensor):
        at, flat = inner.row_splits.numpy(), inner.values.numpy()
        entries: Any = [flat[at[i] : at[i + 1]] for i in range(len(at) - 1)]
    else:
        entries = inner.numpy()
    return [entries[starts[i] : starts[i + 1]] for i in range(len(starts) - 1)]


def _described(feature: Any) -> Any:
    if feature is None:
        return None
    return {"kind": feature.kind} | {n: v for n, v in vars(feature).items() if n != "split"}


def _made(config: Any) -> Any:
    if config is None:
        return None
    return KINDS[config["kind"]](**{name: value for name, value in config.items() if name != "kind"})
