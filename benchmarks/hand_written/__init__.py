"""The programs of the zoo as graphs written by hand: what a careful engineer makes of each with TensorFlow alone.

Each is a `tf.function` without AutoGraph and with an input signature. It has the weights of the program that it is
given, and does the same arithmetic, optimizers included; what the program keeps in Python is in variables. Loops whose
length is known are unrolled, and products that do not depend on the loop are made before or after it at once. TreeRNN
and TreeLSTM have this project's SubGraph over a table of the nodes, which is made of the Python objects at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recgraph.benchmarks.hand_written import adversarial, images, playing, trees, words

GRAPHS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "lenet": images.lenet,
    "resnet50": images.classifier,
    "inception_v3": images.classifier,
    "lstm": words.lstm,
    "lm": words.lm,
    "tree_rnn": trees.network,
    "tree_lstm": trees.network,
    "a3c": playing.a3c,
    "ppo": playing.ppo,
    "an": adversarial.an,
    "pix2pix": adversarial.pix2pix,
}

__all__ = ["GRAPHS"]
