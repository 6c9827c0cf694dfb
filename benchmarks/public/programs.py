"""The public programs: where they are, what their step is, and what is adapted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recgraph.benchmarks.public.adapting import Public


def _of(repo: str, commit: str, start: str = "", end: str = "", **shared: Any) -> Callable[..., Public]:
    """Makes programs of one repository."""

    def make(name: str, kind: str, file: str, step: str, **more: Any) -> Public:
        return Public(name, kind, repo, more.pop("commit", commit), f"{start}{file}{end}", step, **{**shared, **more})

    return make


# The games give what Gym's give since version 0.26.
_NEW_GYM = "import sys, gymnasium; sys.modules['gym'] = gymnasium"
# A grid of ten by ten pictures, of batches that have as many.
_NO_PICTURES = {"range(0, 280, 28)": "range(0)"}


def _folder(name: str) -> str:
    """Code that makes one that the program expects."""
    return f"import os; os.makedirs({name!r}, exist_ok=True)"


_docs = _of("tensorflow/docs", "7c3650212740204359d4ceae481abc79345541be", "site/en/", ".ipynb")
_keras = _of(
    "keras-team/keras-core",
    "3a464f904dc8dd09de9c51d248a7fe7c575d7f3e",
    "",
    ".py",
    edits={
        "keras_core": "keras",
        "[-10000:]": "[-128:]",
        "[:-10000]": "[:-128]",
        "(60000, 784)": "(-1, 784)",
        "(10000, 784)": "(-1, 784)",
    },
)
_FEWER = {"reshape(60000, 784)": "reshape(-1, 784)", "reshape(10000, 784)": "reshape(-1, 784)", "10000": "128"}
_damien = _of(
    "aymericdamien/TensorFlow-Examples",
    "6dcbe14649163814e72a22a999f20c5e247ce988",
    "tensorflow_v2/notebooks/",
    ".ipynb",
    sizes={"batch_size": "32"},
    adapted="smaller batches",
)
_book = _of(
    "yusugomori/deeplearning-keras-tf2-torch",
    "08e7b1fbd965eb5d6dbc50fd79c22dc4560ee5ea",
    "",
    "_tf.py",
    beside={f"callbacks/{one}.py": f"4/callbacks/{one}.py" for one in ("__init__", "EarlyStopping")},
)
_gans = _of(
    "marload/GANs-TensorFlow2",
    "77d851846b7c3675622aca39f4c59314980f2f41",
    "",
    ".py",
    sizes={"BATCH_SIZE": "16"},
    adapted="batches of 16",
)
_rl = _of("marload/DeepRL-TensorFlow2", "876266d9a5fcf7d8a7c7e3afd8b110085b32b615", "", ".py")
# What is played between steps; Keras's `predict` sets up a data set for each move.
_MOVES = {
    f"{owner}.model.predict(": f"{owner}.model.predict_on_batch(" for owner in ("self", "self.actor", "self.critic")
}
_dragen = _of("dragen1860/TensorFlow-2.x-Tutorials", "9861a308283d17693d497fdfaab20b92c0b26d08", "", ".py")
_generative = _of(
    "timsainb/tensorflow2-generative-models",
    "9ef283b168a2c5d262bcc48eeba511ac357c0349",
    "",
    "-fashion-mnist.ipynb",
    sizes={"BATCH_SIZE": "16", "TRAIN_BUF": "640", "TEST_BUF": "64"},
    adapted="batches of 16",
    without=("plot_reconstruction",),
)
_suran = _of("abhisheksuran/Reinforcement_Learning", "12c9544ea0c9386fd7b9d20f7c35c6fa95462ba1")
_handbook = _of(
    "snowkylin/tensorflow-handbook", "ee9fbe02ceee4e2f4fe23960219dd23ad5904c55", "source/_static/code/zh-hant/", ".py"
)
_zoo = _of(
    "ryancheunggit/tensorflow2_model_zoo",
    "584e015c459ab8e27f0f2f386fd812f78baf7b1f",
    "",
    ".py",
    arguments=("train",),
    first=_folder("models"),
)

_ODE = (
    "adams",
    "adaptive_huen",
    "adjoint",
    "bosh3",
    "compat",
    "dopri5",
    "dopri8",
    "fixed_adams",
    "fixed_grid",
    "interp",
)
_ODE += ("misc", "odeint", "rk_common", "solvers", "tsit5", "__init__", "viz_utils")
_ode = _of(
    "titu1994/tfdiffeq",
    "ef646f85cbd0821749a03e7ab51e03e16798fab1",
    "examples/",
    ".py",
    beside={f"tfdiffeq/{name}.py": f"tfdiffeq/{name}.py" for name in _ODE},
    edits={
        "tf.enable_eager_execution()": "pass",
        "tf.train.RMSPropOptimizer": "tf.keras.optimizers.RMSprop",
        "tf.test.is_gpu_available()": "False",
        "seaborn-paper": "default",
        "tf.train.AdamOptimizer": "tf.keras.optimizers.Adam",
    },
    without=("visualize",),
)
_LANGUAGE = (
    "layers/__init__.py",
    "layers/tf/__init__.py",
    "layers/tf/Attention.py",
    "layers/tf/LayerNormalization.py",
    "layers/tf/MultiHeadAttention.py",
    "layers/tf/PositionalEncoding.py",
    "layers/tf/ScaledDotProductAttention.py",
    "utils/__init__.py",
    "utils/Vocab.py",
    "utils/tf/__init__.py",
    "utils/tf/DataLoader.py",
)
_language = _of(
    "yusugomori/deeplearning-keras-tf2-torch",
    "08e7b1fbd965eb5d6dbc50fd79c22dc4560ee5ea",
    "6/",
    "_tf.py",
    beside={name: f"6/{name}" for name in _LANGUAGE},
    sizes={"data_dir": "parallel_folder()"},
    first="from recgraph.benchmarks.public.stand_ins import parallel_folder",
    adapted="generated sentences",
)
_CITATIONS = """
def load_data(name):
    from recgraph.benchmarks.public.stand_ins import citations
    return citations()
"""
_pde = _of("janblechschmidt/PDEsByNNs", "71c9588ae8c9692e313f80cebd10aa499f4dfd7f", "", ".ipynb")


def _phil(name: str, folder: str, agent: str, main: str, *beside: str, **more: Any) -> Public:
    start = f"ReinforcementLearning/PolicyGradient/{folder}/"
    files = {file: start + file for file in (agent, "utils.py", *beside)}
    return Public(
        name,
        "reinforcement",
        "philtabor/Youtube-Code-Repository",
        "eb3aa9733158a4f7c4ba1fefaa812b27ffd889b6",
        start + main,
        "Agent.learn",
        beside=files,
        where=agent,
        **more,
    )


PROGRAMS = (
    _docs(
        "tutorial: quickstart", "classification", "tutorials/quickstart/advanced", "train_step", sizes={"EPOCHS": "20"}
    ),
    _docs(
        "guide: basic training loops",
        "regression",
        "guide/basic_training_loops",
        "train",
        sizes={"epochs": "range(200)"},
    ),
    _docs(
        "tutorial: actor-critic",
        "reinforcement",
        "tutorials/reinforcement_learning/actor_critic",
        "train_step",
        first=_NEW_GYM,
        sizes={"max_steps_per_episode": "40"},
        adapted="episodes of at most 40 steps",
    ),
    _docs("tutorial: CVAE", "VAE", "tutorials/generative/cvae", "train_step"),
    _docs(
        "tutorial: DCGAN",
        "GAN",
        "tutorials/generative/dcgan",
        "train_step",
        sizes={"BATCH_SIZE": "8"},
        adapted="batches of 8",
        without=("generate_and_save_images",),
    ),
    _docs(
        "tutorial: style transfer",
        "style transfer",
        "tutorials/generative/style_transfer",
        "train_step",
        adapted="random weights, pictures of 64 pixels, 30 steps",
        sizes={"max_dim": "64", "epochs": "1", "steps_per_epoch": "30"},
        without=("tensor_to_image",),
        edits={"tf.keras.applications.vgg19.decode_predictions(prediction_probabilities.numpy())[0]": "[]"},
    ),
    _docs(
        "tutorial: translation with attention",
        "translation",
        "tutorials/text/nmt_with_attention",
        "train_step",
        commit="87f758031",
        sizes={"path_to_file": "parallel_texts()", "units": "64", "embedding_dim": "32", "num_examples": "640"},
        first="from recgraph.benchmarks.public.stand_ins import parallel_texts",
        adapted="64 units, generated sentences",
    ),
    _docs(
        "guide: mixed precision",
        "classification",
        "guide/mixed_precision",
        "train_step",
        edits={
            **_FEWER,
            ".dtype.name": ".dtype",
            "optimizer.get_scaled_loss(loss)": "optimizer.scale_loss(loss)",
            "optimizer.get_unscaled_gradients(scaled_gradients)": "scaled_gradients",
            "8192": "64",
            "range(5)": "range(20)",
        },
        adapted="batches of 64; the methods of Keras 3 for scaled losses",
    ),
    _docs(
        "guide: layers and models",
        "VAE",
        "guide/keras/custom_layers_and_models",
        "loop",
        commit="4d057d673",
        edits={
            **_FEWER,
            "assert linear_layer.weights == [linear_layer.w, linear_layer.b]": "pass",
            "zeros(1, 1)": "zeros([1])",
        },
        adapted="without a check of weights that Keras 3 does not keep",
    ),
    _docs(
        "guide: train and evaluate",
        "classification",
        "guide/keras/train_and_evaluate",
        "loop",
        commit="cc14a8a40",
        edits={
            **_FEWER,
            "keras.losses.Reduction.AUTO": "'sum_over_batch_size'",
            "tf.reduce_sum(x1) * 0.1": "x1",
            "keras.callbacks.ModelCheckpoint(": "left_out(",
            "keras.backend.std(x1)": "x1",
            **{
                f"{one}(": "left_out("
                for one in (
                    "model.fit",
                    "model.evaluate",
                    "model.predict",
                    "model.compile",
                    "self.add_metric",
                    "model.add_metric",
                    "model.add_loss",
                    "keras.utils.plot_model",
                )
            },
        },
        first="from recgraph.benchmarks.public.stand_ins import Nothing; left_out = Nothing()",
        adapted="without what Keras does itself",
    ),
    _docs(
        "guide: eager MNIST",
        "classification",
        "guide/eager",
        "train_step",
        commit="10783a1a7",
        edits={"model.load_weights('weights')": "None", "status.assert_consumed()": "pass"},
    ),
    _keras(
        "Keras guide: training loop", "classification", "guides/writing_a_custom_training_loop_in_tensorflow", "loop"
    ),
    _keras(
        "Keras: custom workflow",
        "regression",
        "examples/demo_custom_tf_workflow",
        "train_step",
        edits={"keras_core": "keras", "backend.Variable": "__import__('keras').Variable"},
    ),
    _keras(
        "Keras: actor-critic",
        "reinforcement",
        "examples/keras_io/tensorflow/rl/actor_critic_cartpole",
        "loop",
        first=_NEW_GYM,
        edits={"keras_core": "keras", "state = env.reset()": "state, _ = env.reset()"},
    ),
    _keras("Keras: deep dream", "vision", "examples/keras_io/tensorflow/generative/deep_dream", "gradient_ascent_step"),
    _keras(
        "Keras: style transfer",
        "style transfer",
        "examples/keras_io/tensorflow/generative/neural_style_transfer",
        "compute_loss_and_grads",
        sizes={"img_nrows": "48"},
    ),
    _keras(
        "Keras: what convnets learn",
        "vision",
        "examples/keras_io/tensorflow/vision/visualizing_what_convnets_learn",
        "gradient_ascent_step",
        sizes={"img_width": "64", "img_height": "64"},
    ),
    _damien("Damien: linear regression", "regression", "2_BasicModels/linear_regression", "run_optimization"),
    _damien(
        "Damien: autoencoder",
        "autoencoder",
        "3_NeuralNetworks/autoencoder",
        "run_optimization",
        edits={"weights.values() + biases.values()": "list(weights.values()) + list(biases.values())"},
    ),
    _damien("Damien: bidirectional RNN", "recurrent", "3_NeuralNetworks/bidirectional_rnn", "run_optimization"),
    _damien(
        "Damien: convolutions from scratch",
        "classification",
        "3_NeuralNetworks/convolutional_network_raw",
        "run_optimization",
    ),
    _damien("Damien: DCGAN", "GAN", "3_NeuralNetworks/dcgan", "run_optimization"),
    _damien("Damien: dynamic RNN", "recurrent", "3_NeuralNetworks/dynamic_rnn", "run_optimization"),
    _damien("Damien: layers of one's own", "classification", "4_Utils/build_custom_layers", "run_optimization"),
    _book("book: perceptron", "classification", "4/02_mlp_toy_problem", "train_step", sizes={"epochs": "100"}),
    _book("book: batch normalisation", "classification", "4/29_mnist_batch_norm", "train_step"),
    _book("book: sine by an RNN", "recurrent", "5/02_sin_rnn", "train_step"),
    _book("book: adding problem", "recurrent", "5/08_adding_problem_lstm", "train_step", sizes={"N": "400", "T": "30"}),
    _book("book: bidirectional RNN", "recurrent", "5/17_mnist_birnn", "train_step"),
    _book("book: reviews", "recurrent", "5/20_imdb_birnn", "train_step"),
    _gans("GAN", "GAN", "GAN/GAN", "train_step"),
    _gans("WGAN-GP", "GAN", "WGAN-GP/WGAN-GP", "train_step"),
    _gans("DRAGAN", "GAN", "DRAGAN/DRAGAN", "train_step"),
    _gans("LSGAN", "GAN", "LSGAN/LSGAN", "train_step"),
    _rl("continuous A2C", "reinforcement", "A2C/A2C_Continuous", "Actor.train", edits=_MOVES),
    _rl("discrete A2C", "reinforcement", "A2C/A2C_Discrete", "Actor.train", edits=_MOVES),
    _rl(
        "DDPG",
        "reinforcement",
        "DDPG/DDPG_Continuous",
        "Agent.replay",
        edits={
            "self.model.predict(state)[0]": "self.model.predict_on_batch(state)[0]",
            "self.model([states, actions]": "self.model([tf.convert_to_tensor(states, tf.float32), actions]",
        },
        arguments=("--batch_size", "8", "--train_start", "10"),
        adapted="batches of 8, steps from the tenth move on",
    ),
    _rl("DRQN", "reinforcement", "DRQN/DRQN_Discrete", "ActionStateModel.train", edits=_MOVES),
    _rl("discrete PPO", "reinforcement", "PPO/PPO_Discrete", "Actor.train", edits=_MOVES),
    _dragen("overview: convolutions", "classification", "01-TF2.0-Overview/conv_train", "train_step"),
    _dragen("overview: perceptron", "classification", "01-TF2.0-Overview/fc_train", "train_one_step"),
    _dragen(
        "linear regression",
        "regression",
        "04-Linear-Regression/main",
        "main.loop",
    ),
    _dragen("autoencoder", "autoencoder", "11-AE/main", "loop", edits=_NO_PICTURES, first=_folder("images")),
    _dragen("VAE", "VAE", "12-VAE/main", "loop", edits=_NO_PICTURES, first=_folder("images")),
    _generative("fashion: autoencoder", "autoencoder", "0.0-Autoencoder", "AE.train"),
    _generative("fashion: GAN", "GAN", "2.0-GAN", "GAN.train"),
    _generative("fashion: WGAN-GP", "GAN", "3.0-WGAN-GP", "WGAN.train"),
    _generative(
        "fashion: sequence to sequence",
        "recurrent",
        "4.0-seq2seq",
        "AE.train",
        edits={"np.prod(shape_final[1:])": "int(np.prod(shape_final[1:]))"},
    ),
    _suran(
        "TD3",
        "reinforcement",
        "Td3.py",
        "Agent.train",
        edits={"LunarLanderContinuous-v2": "Pendulum-v1", "Agent(2)": "Agent(1)"},
        sizes={"self.batch_size": "8"},
        adapted="a pendulum, batches of 8",
    ),
    _handbook(
        "handbook: DQN",
        "reinforcement",
        "model/rl/rl",
        "loop",
        edits={"losses.mean_squared_error": "losses.MSE"},
        sizes={"batch_size": "8"},
        adapted="batches of 8",
    ),
    _handbook(
        "handbook: characters",
        "text",
        "model/text_generation/rnn",
        "loop",
        edits={"self.batch_size, dtype=tf.float32": "self.batch_size"},
    ),
    _handbook("handbook: linear model", "regression", "model/linear/linear", "loop"),
    _zoo(
        "model zoo: perceptron",
        "classification",
        "mnist_mlp_eager",
        "train.loop",
        edits=_FEWER,
    ),
    _zoo("model zoo: interpolation consistency", "semi-supervised", "cifar10_cnn_ict", "train.train_step"),
    Public(
        "MAML",
        "meta-learning",
        "mari-linhares/tensorflow-maml",
        "89b0ca1b9cd5dc1a6517c793a92dcdcf4c77f84a",
        "maml.ipynb",
        "train_maml.loop",
        edits={
            "if device_name != '/device:GPU:0'": "if False",
            "losses.mean_squared_error": "losses.MSE",
            ".layers[j].kernel = tf": ".layers[j]._kernel = tf",
            "train_size=20000": "train_size=150",
        },
    ),
    _ode(
        "neural ODE",
        "neural ODE",
        "ode_demo",
        "loop",
        first="import keras; keras.config.set_floatx('float64')",
        arguments=("--data_size", "60", "--batch_time", "5"),
        adapted="60 points",
    ),
    _ode(
        "neural ODE of a circle",
        "neural ODE",
        "circular_ode_demo",
        "loop",
        arguments=("--data_size", "60", "--batch_time", "5"),
        adapted="60 points",
    ),
    _language("book: encoder and decoder", "translation", "03_encoder_decoder", "train_step"),
    _language("book: attention", "translation", "05_attention", "train_step"),
    _language("book: transformer", "translation", "07_transformer", "train_step"),
    _pde(
        "PINN: Burgers",
        "PINN",
        "PINN_Solver",
        "train_step",
        edits={
            "tape.watch(model.trainable_variables)": "pass",
            "tape.watch(self.model.trainable_variables)": "pass",
            "N = 5000": "N = 1",
        },
        sizes={"N_r": "1000"},
        adapted="1,000 points",
    ),
    _pde(
        "deep BSDE",
        "PDE",
        "DeepBSDE_Solver",
        "DeepBSDE.train",
        edits={"40000": "1", "prob_id = 4": "prob_id = 1", ", training) /": ", training=training) /"},
        sizes={"dim": "10", "mc_iter": "100", "N_runs": "2", "num_time_steps": "5"},
        adapted="10 dimensions, 5 steps of time",
    ),
    _phil(
        "DDPG by Tabor",
        "DDPG/tensorflow2/pendulum",
        "ddpg_tf2.py",
        "main_ddpg.py",
        "buffer.py",
        "networks.py",
        sizes={"batch_size": "8"},
        adapted="batches of 8",
    ),
    _phil(
        "TD3 by Tabor",
        "TD3/tf2",
        "td3_tf2.py",
        "main.py",
        edits={"BipedalWalker-v2": "Pendulum-v0", "batch_size=100": "batch_size=8"},
        adapted="a pendulum, batches of 8",
    ),
    Public(
        "policy gradients by Géron",
        "reinforcement",
        "ageron/handson-ml3",
        "e3f3f9e66d58cfa1d068a498433063a1d3fba9ef",
        "18_reinforcement_learning.ipynb",
        "play_one_step",
        without=("show_one_episode", "plot_environment"),
        sizes={"os.environ['TF_USE_LEGACY_KERAS']": "'0'"},
        edits={
            "import tf_keras": "pass",
            "env.step(int(action))": "env.step(int(action[0, 0]))",
            "def play_one_step(env, state, epsilon)": "def play_one_step_further(env, state, epsilon)",
        },
    ),
    Public(
        "GCN",
        "graph network",
        "dragen1860/TensorFlow-2.x-Tutorials",
        "9861a308283d17693d497fdfaab20b92c0b26d08",
        "20-GCN/train.py",
        "loop",
        beside={f"{one}.py": f"20-GCN/{one}.py" for one in ("layers", "inits", "models", "config", "utils", "metrics")},
        instead={"load_data": _CITATIONS},
        edits={
            "import  networkx as nx": "",
            "from    scipy.sparse.linalg.eigen.arpack import eigsh": "",
            "np.bool)": "bool)",
            "support), training)": "support), training=training)",
        },
        adapted="300 generated papers",
    ),
    Public(
        "himmelblau",
        "optimization",
        "lihongxun945/tensorflow2-course",
        "54918d2774d6a2d0841e1ebe282bb57eaf5af2c4",
        "course1/lesson26-himmelblau/h.py",
        "loop",
    ),
)
# Fixed before any of them was run.
FIXED: tuple[Public, ...] = (
    _damien("Damien: logistic regression", "classification", "2_BasicModels/logistic_regression", "run_optimization"),
    _damien("Damien: convolutions", "classification", "3_NeuralNetworks/convolutional_network", "run_optimization"),
    _damien("Damien: perceptron", "classification", "3_NeuralNetworks/neural_network", "run_optimization"),
    _damien(
        "Damien: perceptron from scratch", "classification", "3_NeuralNetworks/neural_network_raw", "run_optimization"
    ),
    _damien("Damien: RNN", "recurrent", "3_NeuralNetworks/recurrent_network", "run_optimization"),
    _book("book: early stopping", "classification", "4/26_mnist_early_stopping", "train_step"),
    _book("book: dropout", "classification", "4/20_mnist_dropout", "train_step"),
    _book("book: sine by a GRU", "recurrent", "5/11_sin_gru", "train_step"),
    _gans("WGAN", "GAN", "WGAN/WGAN", "train_step"),
    _gans("DCGAN", "GAN", "DCGAN/DCGAN", "train_step"),
    _rl("continuous PPO", "reinforcement", "PPO/PPO_Continuous", "Actor.train"),
    _dragen("fashion from scratch", "classification", "05-FashionMNIST/mnist_matmul", "train_one_step"),
    _dragen("digits", "classification", "03-Play-with-MNIST/main", "loop"),
    _dragen("inception", "classification", "07-Inception/main", "loop"),
    _generative("fashion: VAE and GAN", "GAN", "6.0-VAE-GAN", "VAEGAN.train"),
    _zoo("model zoo: mixup", "semi-supervised", "cifar10_cnn_mixup", "train.train_step"),
    _zoo("model zoo: convolutions", "classification", "cifar10_cnn", "train.train_step"),
    _docs("guide: effective TensorFlow 2", "classification", "guide/effective_tf2", "train_step"),
    Public(
        "DDPG by Cottier",
        "reinforcement",
        "bencottier/DRL-TF2",
        "940e5b83c753ae6c8307ca10b1d3c3f1066a46c1",
        "ddpg.py",
        "ddpg.train_step",
    ),
    Public(
        "course: digits",
        "classification",
        "lihongxun945/tensorflow2-course",
        "54918d2774d6a2d0841e1ebe282bb57eaf5af2c4",
        "course1/lesson13/main.py",
        "loop",
    ),
)
