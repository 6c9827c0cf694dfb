"""The programs of the JANUS paper, as people write them: TensorFlow called from Python with all that Python has.

Nothing in them knows of graphs. `program.train_step(...)` runs eagerly; `rg.function(program.train_step)` is the same
program converted. `ZOO` has them by name.
"""

from recgraph.models.zoo.an import AN_MNIST
from recgraph.models.zoo.lenet import LENET
from recgraph.models.zoo.lstm import LSTM_PTB
from recgraph.models.zoo.program import Program
from recgraph.models.zoo.tree_lstm import TREE_LSTM
from recgraph.models.zoo.tree_rnn import TREE_RNN

ZOO: dict[str, Program] = {
    "lenet": LENET,
    "lstm": LSTM_PTB,
    "tree_rnn": TREE_RNN,
    "tree_lstm": TREE_LSTM,
    "an": AN_MNIST,
}

__all__ = ["ZOO", "Program"]
