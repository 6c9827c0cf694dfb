"""`Settings`: everything that a training run was asked for, written to `settings.json` in the folder of the run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from recgraph.models import Hyper
from recgraph.train import stored
from recgraph.train.stored import RunError
from recgraph.train.tasks import TASKS

# These may change when a run is continued: they do not change what was learned so far.
CONTINUABLE = ("epochs", "patience", "engine", "gradient")

_CHOICES: dict[str, Any] = {
    "task": TASKS,
    "model": dict.fromkeys(name for task in TASKS.values() for name in task.models),
    "implementation": ("recursive", "iterative"),
    "engine": ("auto", "parallel", "batched"),
    "gradient": ("cache", "recompute"),
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to train, on what, and for how long.

    Attributes:
      model: the name of a model that can learn the task.
      data: the folder with train.txt, dev.txt and test.txt, trees in PTB form; for relatedness that of SICK.
      task: "fine", five classes; "binary": two classes, neutral nodes have no loss, neutral trees are left out; or
        "relatedness" of pairs of sentences.
      epochs: at most this many passes over the training examples.
      patience: stop after so many epochs without a better accuracy at the roots of `dev`, or Pearson's correlation.
      seed: of the first weights, the order of the trees and the dropout.
      vectors: a file of pre-trained word vectors, or None.
      hyper: hyper-parameters that differ from the model's defaults.
      implementation: "recursive", or "iterative" for the baseline.
      engine, gradient: as in `recgraph.SubGraph`.
      deterministic: whether weights are to be the same to the last bit in every run, for any number of workers.
    """

    model: str
    data: str
    task: str = "fine"
    epochs: int = 30
    patience: int = 6
    seed: int = 0
    vectors: str | None = None
    hyper: dict[str, Any] = dataclasses.field(default_factory=dict)
    implementation: str = "recursive"
    engine: str = "auto"
    gradient: str = "cache"
    deterministic: bool = False

    def full_hyper(self, **known: Any) -> Hyper:
        """The model's defaults with what was asked for, the classes of the task, and `known` put in."""
        changes = {"classes": TASKS[self.task].classes, **known, **self.hyper}
        return dataclasses.replace(self.model_class().defaults, **changes)

    def model_class(self) -> Any:
        """The class of the model.

        Raises:
          RunError: it cannot learn the task.
        """
        models = TASKS[self.task].models
        if self.model not in models:
            able = [name for name, task in TASKS.items() if self.model in task.models]
            raise RunError(
                f"{self.model} does not learn the task {self.task}",
                found=f"--model {self.model} --task {self.task}",
                expected=f"one of {', '.join(models)} for this task",
                next_step=f"give --task {' or '.join(able)}" if able else "give another --model",
            )
        if self.deterministic and (self.engine == "parallel" or self.implementation == "iterative"):
            raise RunError(
                "this way to compute does not give the same bits in every run",
                found=f"--deterministic with engine={self.engine!r}, implementation={self.implementation!r}",
                expected="the batched engine, which adds in a fixed order",
                next_step="leave out --engine, or --deterministic",
            )
        return models[self.model]

    def save(self, folder: Path) -> None:
        """Writes `settings.json`, whole or not at all."""
        stored.write(self, folder / "settings.json")


def load_settings(folder: Path) -> Settings:
    """Reads `settings.json` of a run.

    Raises:
      RunError: there is none, or it is damaged.
    """
    try:
        settings: Settings = stored.read(Settings, folder / "settings.json", "settings", _CHOICES)
    except FileNotFoundError:
        raise RunError(
            "this folder contains no training run", where=str(folder), next_step="`recgraph train --out DIR` makes one"
        ) from None
    return settings


def require_same(old: Settings, new: Settings, folder: Path) -> None:
    """Refuses to continue a run under other settings.

    Raises:
      RunError: names the settings that differ.
    """
    before, after = dataclasses.asdict(old), dataclasses.asdict(new)
    changed = [key for key in before if key not in CONTINUABLE and before[key] != after[key]]
    if changed:
        raise RunError(
            "this folder contains a run with other settings",
            where=str(folder),
            expected=", ".join(f"{key}={before[key]!r}" for key in changed),
            found=", ".join(f"{key}={after[key]!r}" for key in changed),
            next_step="give another --out, or --fresh to throw the old run away",
        )
