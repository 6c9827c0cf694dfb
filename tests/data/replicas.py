"""Two replicas in this process, by a strategy and by Keras: what this prints is read by `test_replicas.py`."""

from __future__ import annotations

import json
import warnings
from typing import Any

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

import keras  # noqa: E402

from recgraph.data import TreeRows, Vocabulary, generate_treebank, tree_dataset  # noqa: E402
from recgraph.models import Hyper, TreeRNN  # noqa: E402

# The first batch is one that two replicas share evenly: Keras adds up the first of all replicas, to see its shapes.
TREES = generate_treebank(7, seed=1)


class Sentiment(keras.Model):
    """A network over trees, trained by plain gradient descent of the sum over the nodes."""

    def __init__(self, network: TreeRNN) -> None:
        super().__init__()
        self.network, self.built = network, True

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Keras gives a replica its rows."""
        loss, _ = self.network.loss(TreeRows(*data).batch())
        return {"loss": loss}


def main() -> None:
    """Prints what replicas give together, what the whole batches give, and what becomes of flat arrays."""
    warnings.simplefilter("ignore")
    vocabulary = Vocabulary.build(TREES)
    network = TreeRNN(len(vocabulary), Hyper(embedding=4, hidden=4))
    flat = tree_dataset(TREES, vocabulary, batch_size=4)
    rows = flat.map(TreeRows.of)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    step = tf.function(lambda batch: network.loss(batch.batch())[0], reduce_retracing=True)
    parts = [
        [float(part) for part in strategy.experimental_local_results(strategy.run(step, args=(batch,)))]
        for batch in strategy.experimental_distribute_dataset(rows)
    ]
    expected = [float(network.loss(batch)[0]) for batch in flat]
    with strategy.scope():
        model = Sentiment(network)
        model.compile(optimizer=keras.optimizers.SGD(0.1))
    fitted = model.fit(rows, verbose=0).history["loss"]
    cut = ""
    try:
        strategy.run(
            tf.function(lambda batch: network.loss(batch)[0]),
            args=(next(iter(strategy.experimental_distribute_dataset(flat))),),
        )
    except tf.errors.InvalidArgumentError as error:
        cut = str(error)
    by_replica = [len(strategy.experimental_local_results(batch.roots)) for batch in whole_batches(strategy, flat)]
    print(json.dumps({"parts": parts, "expected": expected, "fitted": fitted, "cut": cut, "whole": by_replica}))


def whole_batches(strategy: tf.distribute.Strategy, flat: tf.data.Dataset) -> Any:
    """A whole batch for each replica."""
    return strategy.distribute_datasets_from_function(lambda _: flat.take(2))


if __name__ == "__main__":
    main()
