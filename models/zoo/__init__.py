"""Programs as people write them: TensorFlow called from Python with all that Python has.

Nothing in them knows of graphs. `program.train_step(...)` runs eagerly; `rg.function(program.train_step)` is the same
program converted, or co-executed. `ZOO` has those of the JANUS paper by name, `TERRA` those of the Terra
paper, `THESIS` those that chapter 4 of the thesis adds to them, `COEXECUTED` both, `EAGER` those of the TensorFlow
Eager paper and `PROGRAMS` all.
"""

from recgraph.models.zoo.a3c import A3C_CART_POLE
from recgraph.models.zoo.an import AN_MNIST
from recgraph.models.zoo.bert_cls import BERT_CLS
from recgraph.models.zoo.bert_qa import BERT_QA
from recgraph.models.zoo.cycle_gan import CYCLE_GAN
from recgraph.models.zoo.dcgan import DCGAN_MNIST
from recgraph.models.zoo.dropblock import DROPBLOCK
from recgraph.models.zoo.efficientnet import EFFICIENTNET
from recgraph.models.zoo.faster_rcnn import FASTER_RCNN
from recgraph.models.zoo.gcn import GCN_CORA
from recgraph.models.zoo.gpt2 import GPT2_TEXT
from recgraph.models.zoo.inception_v3 import INCEPTION_V3
from recgraph.models.zoo.l2hmc import L2HMC_GAUSSIAN
from recgraph.models.zoo.lenet import LENET
from recgraph.models.zoo.lm import LM_1B
from recgraph.models.zoo.lstm import LSTM_PTB
from recgraph.models.zoo.melgan import MELGAN
from recgraph.models.zoo.music_transformer import MUSIC_TRANSFORMER
from recgraph.models.zoo.pix2pix import PIX2PIX
from recgraph.models.zoo.ppo import PPO_PONG
from recgraph.models.zoo.program import Program
from recgraph.models.zoo.resnet50 import RESNET50
from recgraph.models.zoo.sdpoint import SDPOINT
from recgraph.models.zoo.slimmable import SLIMMABLE
from recgraph.models.zoo.tree_lstm import TREE_LSTM
from recgraph.models.zoo.tree_rnn import TREE_RNN
from recgraph.models.zoo.yolo import YOLO_V3

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

TERRA: dict[str, Program] = {
    "resnet50": RESNET50,
    "bert_qa": BERT_QA,
    "bert_cls": BERT_CLS,
    "dropblock": DROPBLOCK,
    "music_transformer": MUSIC_TRANSFORMER,
    "sdpoint": SDPOINT,
    "gpt2": GPT2_TEXT,
    "dcgan": DCGAN_MNIST,
    "faster_rcnn": FASTER_RCNN,
    "yolo": YOLO_V3,
}

THESIS: dict[str, Program] = {
    "efficientnet": EFFICIENTNET,
    "cycle_gan": CYCLE_GAN,
    "gcn": GCN_CORA,
    "melgan": MELGAN,
    "slimmable": SLIMMABLE,
}

EAGER: dict[str, Program] = {
    "resnet50": RESNET50,
    "l2hmc": L2HMC_GAUSSIAN,
}

COEXECUTED: dict[str, Program] = {**TERRA, **THESIS}
PROGRAMS: dict[str, Program] = {**ZOO, **COEXECUTED, **EAGER}

__all__ = ["COEXECUTED", "EAGER", "PROGRAMS", "TERRA", "THESIS", "ZOO", "Program"]
