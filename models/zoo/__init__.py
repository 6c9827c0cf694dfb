"""The programs of the JANUS paper, as people write them: TensorFlow called from Python with all that Python has.

Nothing in them knows of graphs. `program.train_step(...)` runs eagerly; `rg.function(program.train_step)` is the same
program converted. `ZOO` has them by name.
"""

from recgraph.models.zoo.a3c import A3C_CART_POLE
from recgraph.models.zoo.an import AN_MNIST
from recgraph.models.zoo.inception_v3 import INCEPTION_V3
from recgraph.models.zoo.lenet import LENET
from recgraph.models.zoo.lm import LM_1B
from recgraph.models.zoo.lstm import LSTM_PTB
from recgraph.models.zoo.pix2pix import PIX2PIX
from recgraph.models.zoo.ppo import PPO_PONG
from recgraph.models.zoo.program import Program
from recgraph.models.zoo.resnet50 import RESNET50
from recgraph.models.zoo.tree_lstm import TREE_LSTM
from recgraph.models.zoo.tree_rnn import TREE_RNN

ZOO: dict[str, Program] = {
    "lenet": LENET,
    "resnet50": RESNET50,
    "inception_v3": INCEPTION_V3,
    "lstm": LSTM_PTB,
    "lm": LM_1B,
    "tree_rnn": TREE_RNN,
    "tree_lstm": TREE_LSTM,
    "a3c": A3C_CART_POLE,
    "ppo": PPO_PONG,
    "an": AN_MNIST,
    "pix2pix": PIX2PIX,
}

__all__ = ["ZOO", "Program"]
