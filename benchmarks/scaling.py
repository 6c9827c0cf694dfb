"""Training on several workers: figures 5.10 and 3.8 of the thesis, on network namespaces as hosts.

Each worker has one core, as long as there are enough; with more workers than cores the figures show that the work is
right, not how fast it would be. A model of the time of a step is fitted to one and two workers, checked against four,
and says what more hosts would do, each with a core of its own like those here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from recgraph.benchmarks import report
from recgraph.benchmarks.namespaces import Hosts, NoNamespacesError
from recgraph.benchmarks.options import COUNTS, Several
from recgraph.benchmarks.trees import model_name

MODELS = ("tree_lstm", "tree_rnn", "rntn")
PROGRAMS = ("resnet50", "inception_v3", "lm")
SIZES = tuple(2**power for power in (8, 12, 15, 17, 19, 21))
MORE_HOSTS = (8, 16, 32, 64, 128, 256)
# Below this part of what so many workers could do, a program does not scale any more.
ENOUGH = 0.5
PAPER = """\
Figure 5.10 of the thesis is a chart: training throughput on 1 to 8 machines grows nearly linearly. Figure 3.8, scale
factors of converted programs / of TensorFlow's own, 36 GPUs on 6 machines: ResNet50 0.77 / 0.81, Inception-v3
0.81 / 0.80, LM 0.18 / 0.18."""

Figures = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Setting:
    """Where workers run.

    Attributes:
      workers: how many.
      gigabits: a second, of each link; None for the kernel's own speed.
      is_spaced: whether each has a namespace; else all are processes on the loopback.
    """

    workers: int
    gigabits: float | None
    is_spaced: bool

    @property
    def name(self) -> str:
        """In tables."""
        speed = "unshaped" if self.gigabits is None else f"{self.gigabits:g} Gbit/s"
        return f"{self.workers} workers, {speed}"

    @property
    def has_cores(self) -> bool:
        """Whether each worker has one to itself."""
        return self.workers <= len(os.sched_getaffinity(0))


def run(setting: Setting, order: Mapping[str, Any], delay: float) -> Figures:
    """Starts the workers, and gives what the chief has measured."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        out = Path(folder) / "figures.json"
        hosts = stack.enter_context(Hosts(setting.workers, setting.gigabits, delay)) if setting.is_spaced else None
        addresses = _free_addresses(setting.workers) if hosts is None else hosts.addresses
        cores = sorted(os.sched_getaffinity(0))
        workers = []
        for index in range(setting.workers):
            own = {**order, "out": str(out), "core": cores[index % len(cores)]}
            command = [sys.executable, "-m", "recgraph.benchmarks.scaling_worker", json.dumps(own)]
            task = {"type": "worker", "index": index}
            environment = os.environ | {
                "TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task}),
                "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"),
            }
            if hosts is not None:
                command = hosts.command(index, command)
            workers.append(subprocess.Popen(command, env=environment, start_new_session=True))
            stack.callback(_end, workers[-1])
        statuses = [worker.wait() for worker in workers]
        if any(statuses):
            raise click.ClickException(f"{setting.name}: workers ended with {statuses}")
        found: Figures = json.loads(out.read_text(encoding="utf-8"))
        return found | {"has_delay": hosts is not None and hosts.has_delay}


def _free_addresses(count: int) -> list[str]:
    import recgraph_launch

    return recgraph_launch.free_addresses(count)


def _end(worker: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


@dataclasses.dataclass(frozen=True)
class Network:
    """The time of a sum over n workers, whose messages go round a ring: `2 (n - 1)` of them, one after the other.

    Attributes:
      start: seconds of a message without its bytes.
      byte: seconds of a byte.
    """

    start: float
    byte: float

    def sum(self, size: float, workers: int) -> float:
        """Seconds of a sum of so many bytes."""
        return 2 * (workers - 1) * (self.start + self.byte * size / workers) if workers > 1 else 0.0

    def gather(self, size: float, workers: int) -> float:
        """Seconds of a gather of so many bytes of each."""
        return (workers - 1) * (self.start + self.byte * size)

    @staticmethod
    def fitted(sums: Mapping[str, float], workers: int) -> Network:
        """Least squares of relative errors; `sums`: seconds by the number of floats."""
        sizes, seconds = np.array([4.0 * int(size) for size in sums]), np.array(list(sums.values()))
        columns = 2 * (workers - 1) * np.stack([np.ones_like(sizes), sizes / workers], 1)
        start, byte = np.linalg.lstsq(columns / seconds[:, None], np.ones_like(seconds), rcond=None)[0]
        return Network(max(float(start), 0.0), max(float(byte), 0.0))


@dataclasses.dataclass(frozen=True)
class Model:
    """The time of a step on n workers: computation, waiting for the slowest, and communication.

    Attributes:
      compute: seconds of a worker's part of a step.
      rest: seconds of a step that a second worker adds beyond what the network's model says.
      dense, rows: bytes that are added up, and gathered from each.
      network: what moves them.
    """

    compute: float
    rest: float
    dense: float
    rows: float
    network: Network

    def communication(self, workers: int) -> float:
        """Seconds of a step."""
        gather = self.network.gather(self.rows, workers) if self.rows else 0.0
        return self.network.sum(self.dense, workers) + gather

    def seconds(self, workers: int) -> float:
        """Of a step; the slowest of n is waited for, and is as much slower as the logarithm of n says."""
        return self.compute + self.communication(workers) + self.rest * max(math.log2(workers), 0.0)

    def efficiency(self, workers: int) -> float:
        """The part of n times one worker's speed."""
        return self.compute / self.seconds(workers)

    def limit(self, workers: int) -> str:
        """What takes most of what is not computation."""
        parts = {
            "messages": self.network.sum(0.0, workers) + (self.network.gather(0.0, workers) if self.rows else 0.0),
            "bytes of weights": self.network.sum(self.dense, workers) - self.network.sum(0.0, workers),
            "rows of the embedding": self.rows * self.network.byte * (workers - 1),
            "waiting for the slowest": self.rest * math.log2(workers),
        }
        return max(parts, key=parts.__getitem__)

    @staticmethod
    def fitted(of_two: Figures, program: str, way: str) -> Model:
        """From one worker and two; `way`: what the names of the series begin with."""
        figures = of_two[program]
        alone, shared = (_step(figures, way, kind) for kind in ("alone", "shared"))
        plain = Model(
            alone, 0.0, figures["dense_bytes"], figures["row_bytes"], Network.fitted(of_two["sums"], of_two["workers"])
        )
        return dataclasses.replace(plain, rest=max(shared - plain.seconds(2), 0.0))


def _step(figures: Figures, way: str, kind: str, clock: str = "seconds") -> float:
    """Of a step; `clock`: "seconds", or "processor" for seconds of a core's work."""
    return float(statistics.median(figures[clock][way + kind]) / figures["steps"][kind])


def ways_of(figures: Figures) -> list[str]:
    """What the names of a program's series begin with."""
    return sorted({name.removesuffix("alone") for name in figures["seconds"] if name.endswith("alone")})


def speedup(figures: Figures, way: str, clock: str = "seconds") -> list[float]:
    """How many times one worker's speed, by rounds; by "processor", what it would be if no core ever waited."""
    alone, shared = (figures[clock][way + kind] for kind in ("alone", "shared"))
    work = figures["units"]["shared"] / figures["units"]["alone"]
    return [work * one / together for one, together in zip(alone, shared, strict=True)]


def measured(results: Mapping[str, Any]) -> str:
    """A row for each program and setting."""
    rows = []
    for setting, figures in results.items():
        workers = figures["workers"]
        for program, of_program in _programs(figures):
            for way in ways_of(of_program):
                times = speedup(of_program, way)
                alone, apart, shared = (_step(of_program, way, kind) for kind in ("alone", "apart", "shared"))
                speed = of_program["units"]["alone"] / of_program["steps"]["alone"] / alone
                rows.append(
                    [
                        f"{label(program)}{', ' * bool(way)}{way.rstrip(', ')}",
                        setting + ("" if figures["has_cores"] else ", of too few cores"),
                        f"{speed:,.0f}",
                        f"{statistics.median(times):.2f} ±{(max(times) - min(times)) / 2:.2f}",
                        f"{statistics.median(times) / workers:.3f}",
                        f"{max(0.0, 1 - apart / shared):.1%}",
                        f"{1e3 * max(0.0, shared - apart):.1f}",
                        " / ".join(
                            f"{1e3 * _step(of_program, way, kind, 'processor'):.1f}"
                            for kind in ("alone", "apart", "shared")
                        ),
                        f"{statistics.median(speedup(of_program, way, 'processor')):.2f}",
                    ]
                )
    header = ["program", "hosts", "one worker, a second", "times one", "scale factor", "communication", "ms a step"]
    header += ["processor, ms a step: alone / apart / shared", "times one, if no core waited"]
    return report.markdown(header, rows)


def label(program: str) -> str:
    """Of a program or model, in tables."""
    from recgraph.models.zoo import PROGRAMS as ZOO

    return ZOO[program].name if program in PROGRAMS else model_name(program)


def _programs(figures: Figures) -> Iterator[tuple[str, Figures]]:
    for program in (*MODELS, *PROGRAMS):
        if program in figures:
            yield program, figures[program]


def predicted(results: Mapping[str, Any]) -> str:
    """For each network: what the model says of four workers beside what was measured, and of more hosts."""
    rows = []
    for figures in results.values():
        if figures["workers"] != 2:
            continue
        check = next((r for r in results.values() if r["workers"] == 4 and r["gigabits"] == figures["gigabits"]), None)
        for program, of_program in _programs(figures):
            for way in ways_of(of_program):
                model = Model.fitted(figures, program, way)
                last = next((n for n in (2, 4, *MORE_HOSTS) if model.efficiency(n) < ENOUGH), None)
                rows.append(
                    [
                        f"{label(program)}{', ' * bool(way)}{way.rstrip(', ')}",
                        "unshaped" if figures["gigabits"] is None else f"{figures['gigabits']:g} Gbit/s",
                        _checked(model, check, program, way),
                        *(f"{n * model.efficiency(n):.1f}" for n in MORE_HOSTS),
                        "beyond 256" if last is None else f"{last}: {model.limit(last)}",
                    ]
                )
    header = ["program", "network", "error at 4", *map(str, MORE_HOSTS), f"below {ENOUGH:.0%} at"]
    return report.markdown(header, rows)


def _checked(model: Model, check: Figures | None, program: str, way: str) -> str:
    """How far the model is from what four workers did; they share cores, so their computation is what they measured."""
    if check is None or program not in check:
        return ""
    apart, shared = (_step(check[program], way, kind) for kind in ("apart", "shared"))
    said = dataclasses.replace(model, compute=apart).seconds(4)
    return f"{said / shared - 1:+.0%}"


def networks(results: Mapping[str, Any]) -> str:
    """The fitted networks, and how far they are from the sums of four workers."""
    lines = []
    for setting, figures in results.items():
        network = Network.fitted(figures["sums"], figures["workers"])
        worst = max(
            abs(network.sum(4.0 * int(size), figures["workers"]) / seconds - 1)
            for size, seconds in figures["sums"].items()
        )
        lines.append(
            f"- {setting}: {1e6 * network.start:.0f} us a message, {1e-9 * 8 / max(network.byte, 1e-15):.2f} Gbit/s; "
            f"the sums measured are within {worst:.0%} of that"
        )
    return "\n".join(lines)


@click.command()
@click.option("--workers", type=COUNTS, default="2,4", show_default=True, help="One worker is the chief, alone.")
@click.option(
    "--gigabits", type=Several(click.FLOAT), default="10,1", show_default=True, help="Of each link, a second."
)
@click.option("--delay", default=50.0, show_default=True, help="Microseconds by which a host sends later.")
@click.option("--models", type=Several((*MODELS, "none")), default=",".join(MODELS), show_default=True)
@click.option("--programs", type=Several((*PROGRAMS, "none")), default=",".join(PROGRAMS), show_default=True)
@click.option("--batch", type=click.IntRange(1), default=64, show_default=True, help="Trees a worker and step.")
@click.option("--zoo-batch", type=click.IntRange(1), default=8, show_default=True, help="Images or sequences.")
@click.option("--count", type=click.IntRange(1), default=1024, show_default=True, help="Trees of an epoch.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--trees",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Left out: of the treebank in RECGRAPH_DATA, or made where there is none.",
)
@click.option("--local", is_flag=True, help="Processes on the loopback in place of namespaces.")
@report.out_option
def main(
    workers: list[int],
    gigabits: list[float],
    delay: float,
    models: list[str],
    programs: list[str],
    batch: int,
    zoo_batch: int,
    count: int,
    rounds: int,
    file: Path | None,
    local: bool,
    out: Path | None,
) -> None:
    """Measure training on several workers, and say what more hosts would do."""
    said = []
    try:
        with contextlib.nullcontext() if local else Hosts(2, gigabits[0]):
            is_spaced = not local
    except NoNamespacesError as error:
        is_spaced = False
        said.append(f"No namespaces ({error}): the workers are processes on the loopback, and no network is shaped.")
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        order = {
            "trees": str(file or _trees(Path(folder), count)),
            "models": [name for name in models if name != "none"],
            "batch": batch,
            "zoo_batch": zoo_batch,
            "count": count,
            "rounds": rounds,
            "steps": 4,
            "sizes": SIZES,
        }
        for gigabit in gigabits if is_spaced else [None]:
            for number in workers:
                setting = Setting(number, gigabit, is_spaced)
                # Four workers on two cores would measure the zoo's programs for long, and say little.
                chosen = [name for name in programs if name != "none" and setting.has_cores]
                click.echo(f"{setting.name} ...", err=True)
                figures = run(setting, {**order, "programs": chosen}, delay)
                kept = {"workers": number, "gigabits": gigabit, "has_cores": setting.has_cores}
                results[setting.name] = figures | kept
                report.save("scaling", results, out)
    if is_spaced and delay and not all(figures["has_delay"] for figures in results.values()):
        said.append("This kernel has no netem: links have their rate, and the delay of the kernel, not that asked for.")
    parts = [measured(results), networks(results), predicted(results), *said, PAPER]
    report.leave("scaling", results, "\n\n".join(parts), out)


def _trees(folder: Path, count: int) -> Path:
    """A file of so many trees or more; made in the folder where there is no treebank."""
    from recgraph.data import sst_dir, write_treebank

    with contextlib.suppress(FileNotFoundError):
        return sst_dir() / "train.txt"
    write_treebank(folder, (count, 1, 1), seed=1)
    return folder / "train.txt"
