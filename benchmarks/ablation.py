"""What each optimisation of the converter adds to the speed of a program (figure 3.7 of the thesis).

A stage is a process of its own, since threads can be told only to a whole process: without parallel execution it has
one thread for operations. The processes take turns, one measurement each a round.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recgraph as rg
from recgraph.benchmarks import measure, report
from recgraph.models.zoo import ZOO
from recgraph.speculate import Optimizations


@dataclasses.dataclass(frozen=True)
class Stage:
    """One column.

    Attributes:
      label: in the table.
      optimizations: of the converter; None for eager execution.
      parallel: whether operations run on as many threads as there are cores.
    """

    label: str
    optimizations: Optimizations | None
    parallel: bool = True


STAGES: dict[str, Stage] = {
    "eager": Stage("eager", None),
    "base": Stage("base graph", Optimizations(unrolling=False, specialisation=False, batched=False), False),
    "unrolling": Stage("+ unrolling", Optimizations(specialisation=False, batched=False), False),
    "specialisation": Stage("+ specialisation", Optimizations(batched=False), False),
    "parallel": Stage("+ parallel", Optimizations(batched=False)),
    "batched": Stage("+ batched", Optimizations()),
}
# The programs that recurse; for the others the last stage is the one before it.
RECURSIVE = ("tree_rnn", "tree_lstm")


@dataclasses.dataclass(frozen=True)
class Case:
    """What is measured: a program, its batch size, whether it has the size of tests, and the folder of real data."""

    name: str
    batch_size: int
    small: bool
    data: str | None


class Worker:
    """The process of a stage. A call measures once, in units of work a second.

    Attributes:
      told: after the steps before the clock: the calls by kind, and why it does not take part, or "".
    """

    def __init__(self, stage: str, case: Case, warm_up: int):
        """Args: of `STAGES`, what is measured, and the steps before the clock starts."""
        options = json.dumps([stage, dataclasses.asdict(case), warm_up])
        command = [sys.executable, "-c", f"from recgraph.benchmarks.ablation import child; child({options!r})"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.told: dict[str, Any] = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"the process of an ablation ended with {self._process.wait()}")

    def __call__(self) -> float:
        assert self._process.stdin is not None
        print("measure", file=self._process.stdin, flush=True)
        return float(self._answer()["speed"])

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def child(options: str) -> None:
    """The process of a stage: warms up, then measures whenever a line comes in."""
    stage_name, fields, warm_up = json.loads(options)
    stage, case = STAGES[stage_name], Case(**fields)
    import tensorflow as tf

    if not stage.parallel:
        tf.config.threading.set_inter_op_parallelism_threads(1)
    from recgraph.benchmarks import programs

    def step(made: Any) -> Any:
        if stage.optimizations is None:
            return made.train_step
        return rg.function(made.train_step, mode="speculate", optimizations=stage.optimizations)

    epoch = programs.epoch_of(case.name, case.batch_size, case.small, None if case.data is None else Path(case.data))
    contender = programs.Contender(ZOO[case.name], step, epoch, case.small)
    raised = contender.warm_up(warm_up)
    calls = getattr(contender.step, "calls", {})
    losses = [loss.tolist() for loss in contender.losses]
    print(json.dumps({"raised": raised, "calls": calls, "losses": losses}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"speed": contender()}), flush=True)


def measured(case: Case, warm_up: int, rounds: int) -> dict[str, Any]:
    """The speeds of all stages of a program, interleaved, and what each has told."""
    stages = [stage for stage in STAGES if stage != "batched" or case.name in RECURSIVE]
    workers = {stage: Worker(stage, case, warm_up) for stage in stages}
    try:
        right = {stage: worker for stage, worker in workers.items() if not worker.told["raised"]}
        series = measure.interleave(right, rounds)
    finally:
        for worker in workers.values():
            worker.close()
    return {
        "program": case.name,
        "batch_size": case.batch_size,
        "unit": ZOO[case.name].unit,
        "series": series,
        "told": {stage: worker.told for stage, worker in workers.items()},
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """Speeds, each over the one of eager execution."""
    rows = []
    for result in results:
        series = result["series"]
        title = f"{ZOO[result['program']].name}, {result['batch_size']}, {result['unit']}"
        speeds = [_speed(series, stage) for stage in STAGES]
        rows.append([title, *speeds])
    return report.markdown(["program, batch, a second", *(stage.label for stage in STAGES.values())], rows)


def _speed(series: dict[str, measure.Series], stage: str) -> str:
    if stage not in series:
        return ""
    over = f" ({series[stage].over(series['eager']):.2f})" if stage != "eager" and "eager" in series else ""
    return f"{series[stage].median:,.0f}{over}"
