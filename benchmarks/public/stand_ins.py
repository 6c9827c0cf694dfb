"""Stands in for what public programs load, play and draw: random data of the same form, two of Gym's games."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import shutil
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

# Libraries that draw, write films, or log: their calls give nothing of use.
DRAWING = (
    "imageio",
    "tensorflow_docs",
    "tensorflow_docs.vis",
    "tensorflow_docs.vis.embed",
    "tensorflow_probability",
    "seaborn",
    "tensorflow_hub",
    "wandb",
    "pyvirtualdisplay",
    "cv2",
    "plotting",
    "pyDOE",
    "tensorboardX",
    "pandas",
)
EXAMPLES = 640
# Of each data set of images in `keras.datasets`: the form of one, and classes.
IMAGES = {
    "mnist": ((28, 28), 10),
    "fashion_mnist": ((28, 28), 10),
    "cifar10": ((32, 32, 3), 10),
    "cifar100": ((32, 32, 3), 100),
}
TEXTS = ("imdb", "reuters")
WORDS = [
    "the",
    "sun",
    "and",
    "moon",
    "rise",
    "over",
    "a",
    "quiet",
    "river",
    "while",
    "old",
    "men",
    "tell",
    "new",
    "tales",
    "of",
    "war",
    "love",
    "rain",
    "wind",
    "stone",
    "and",
    "fire",
]


class Nothing:
    """What drawing gives: anything can be done with it, to no effect."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return Nothing()

    def __getitem__(self, key: Any) -> Any:
        return Nothing()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _Table(Nothing):
    """A class, since others ask whether something is one."""

    def __init__(self, *_: Any, **named: Any) -> None:
        pass


class _Empty(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()


def install() -> None:
    """Puts all of it where programs look for it."""
    for name in DRAWING:
        if name.split(".")[0] not in sys.modules and importlib.util.find_spec(name.split(".")[0]) is None:
            sys.modules[name] = _Empty(name)
            sys.modules[name].__path__ = []  # type: ignore[attr-defined]
    if isinstance(sys.modules.get("pandas"), _Empty):
        sys.modules["pandas"].DataFrame = sys.modules["pandas"].Series = _Table  # type: ignore[attr-defined]
    for name in [name for name in sys.modules if "." in name and name in DRAWING]:
        holder, _, last = name.rpartition(".")
        setattr(sys.modules[holder], last, sys.modules[name])
    for package in ("keras.src.datasets", "keras.datasets", "keras._tf_keras.keras.datasets"):
        for name, (form, classes) in IMAGES.items():
            module = importlib.import_module(f"{package}.{name}")
            module.load_data = _images(form, classes)  # type: ignore[attr-defined]
        for name in TEXTS:
            module = importlib.import_module(f"{package}.{name}")
            module.load_data, module.get_word_index = texts, word_index  # type: ignore[attr-defined]
        importlib.import_module(f"{package}.boston_housing").load_data = houses  # type: ignore[attr-defined]
    for package in ("keras.utils", "keras._tf_keras.keras.utils"):
        importlib.import_module(package).get_file = file  # type: ignore[attr-defined]
    sys.modules["gym"], sys.modules["gymnasium"] = _gym("gym", False), _gym("gymnasium", True)
    for old, kind in (("bool8", np.bool_), ("float_", np.float64), ("int", int), ("float", float), ("bool", bool)):
        if not hasattr(np, old):
            setattr(np, old, kind)


def _images(form: tuple[int, ...], classes: int) -> Any:
    def load_data(*_: Any, **named: Any) -> Any:
        return tuple(
            (
                numbers.integers(0, 256, (count, *form)).astype(np.uint8),
                numbers.integers(0, classes, (count, 1) if len(form) == 3 else count).astype(np.uint8),
            )
            for numbers, count in ((np.random.default_rng(0), EXAMPLES), (np.random.default_rng(1), EXAMPLES // 10))
        )

    return load_data


def texts(*_: Any, num_words: int | None = None, maxlen: int | None = None, **named: Any) -> Any:
    """As `keras.datasets.imdb` has them."""
    numbers = np.random.default_rng(0)

    def part() -> Any:
        lengths = numbers.integers(20, 120, EXAMPLES)
        found = np.empty(EXAMPLES, object)
        found[:] = [list(map(int, numbers.integers(1, num_words or 5000, length))) for length in lengths]
        return found, numbers.integers(0, 2, EXAMPLES)

    return part(), part()


def word_index(*_: Any) -> dict[str, int]:
    """The numbers of words."""
    return {f"word{number}": number for number in range(1, 5000)}


def houses(*_: Any, **named: Any) -> Any:
    """As `keras.datasets.boston_housing` has them."""
    numbers = np.random.default_rng(0)
    features = numbers.normal(size=(506, 13))
    prices = features @ numbers.normal(size=13) + 22.0
    return (features[:404], prices[:404]), (features[404:], prices[404:])


def file(fname: str | None = None, origin: str = "", **_: Any) -> str:
    """As `keras.utils.get_file`: a text, a picture, or a table of three kinds of flowers."""
    name = Path(fname or origin).name or "file"
    path = Path(tempfile.mkdtemp(prefix="public-")) / name
    numbers = np.random.default_rng(0)
    if path.suffix in (".jpg", ".jpeg", ".png"):
        from PIL import Image

        Image.fromarray(numbers.integers(0, 256, (224, 224, 3)).astype(np.uint8)).save(path)
    elif path.suffix == ".csv":
        rows = [[*numbers.normal(size=4).round(2), numbers.integers(0, 3)] for _ in range(120)]
        path.write_text("\n".join(",".join(map(str, row)) for row in [["120", "4", "a", "b", "c"], *rows]) + "\n")
    else:
        lines = [" ".join(numbers.choice(WORDS, numbers.integers(4, 12))).capitalize() + "." for _ in range(2000)]
        path.write_text("\n".join(lines))
    return str(path)


def parallel_texts() -> str:
    """Sentences and what they are in another language, with a tab between: the same words backwards."""
    numbers = np.random.default_rng(0)
    path = Path(tempfile.mkdtemp(prefix="public-")) / "parallel.txt"
    lines = [list(numbers.choice(WORDS, numbers.integers(3, 8))) for _ in range(700)]
    path.write_text("\n".join(f"{' '.join(line)}.\t{' '.join(line[::-1])}." for line in lines))
    return str(path)


def parallel_folder() -> str:
    """The same in a folder, as `train.en`, `train.ja` and so on."""
    pairs = [line.split("\t") for line in Path(parallel_texts()).read_text(encoding="utf-8").splitlines()]
    folder = Path(tempfile.mkdtemp(prefix="public-"))
    for name, part in (("train", pairs[:600]), ("dev", pairs[600:650]), ("test", pairs[650:])):
        for column, language in enumerate(("en", "ja")):
            (folder / f"{name}.{language}").write_text("\n".join(pair[column] for pair in part) + "\n")
    return str(folder)


def citations(papers: int = 300, words: int = 100, classes: int = 7) -> tuple[Any, ...]:
    """A graph of papers: links, words, classes of three parts, and what these parts are."""
    import scipy.sparse as sp

    numbers = np.random.default_rng(0)
    links = sp.coo_matrix(np.triu(numbers.random((papers, papers)) < 0.02, 1).astype(float))
    labels = np.eye(classes)[numbers.integers(0, classes, papers)]
    part = numbers.integers(0, 3, papers)
    masks = [part == one for one in range(3)]
    texts = sp.lil_matrix((numbers.random((papers, words)) < 0.1).astype(float))
    return (links + links.T, texts, *(labels * mask[:, None] for mask in masks), *masks)


def _installed(name: str) -> Any:
    """A module beside this one as if it were installed: what libraries do is not looked into, and not tried out."""
    folder = Path(tempfile.mkdtemp()) / "site-packages"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name(f"{name}.py"), folder)
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


def _gym(name: str, is_new: bool) -> types.ModuleType:
    games = _installed("games") if "games" not in sys.modules else sys.modules["games"]
    module: Any = _Empty(name)
    module.make, module.Env, module.Wrapper = functools.partial(games.make, is_new=is_new), games.Game, games.Game
    module.__path__ = []
    module.spaces = types.SimpleNamespace(Discrete=games.Space, Box=games.Space)
    sys.modules[f"{name}.spaces"] = _Empty(f"{name}.spaces")
    sys.modules[f"{name}.wrappers"] = _Empty(f"{name}.wrappers")
    return module
