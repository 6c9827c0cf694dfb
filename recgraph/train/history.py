"""What a run leaves to look at: `log.jsonl`, one record an epoch, the same for TensorBoard, and the learning curve."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from recgraph.data.files import DataFormatError, atomic_file, read_lines

Record = dict[str, Any]


class EventFile:
    """Scalars for TensorBoard. Written as records of TensorFlow: `tf.summary` wants TensorBoard to be installed."""

    def __init__(self, folder: Path):
        """Opens a new file; TensorBoard joins the files of a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self._file = tf.io.TFRecordWriter(str(folder / f"events.out.tfevents.{time.time_ns()}"))
        self._write(tf.compat.v1.Event(wall_time=time.time(), file_version="brain.Event:2"))

    def add(self, step: int, scalars: dict[str, float]) -> None:
        """Writes the scalars of a step."""
        values = [tf.compat.v1.Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        self._write(tf.compat.v1.Event(wall_time=time.time(), step=step, summary=tf.compat.v1.Summary(value=values)))

    def close(self) -> None:
        """Ends the file."""
        self._file.close()

    def _write(self, event: tf.compat.v1.Event) -> None:
        self._file.write(event.SerializeToString())
        self._file.flush()


class History:
    """The records of the epochs so far."""

    def __init__(self, folder: Path, epoch: int):
        """Opens the history of a run that continues after `epoch`: records beyond it are dropped and made again."""
        self._folder = folder
        self._path = folder / "log.jsonl"
        self.records = [record for record in read_log(self._path) if record["epoch"] <= epoch]
        self._write()
        self._events = EventFile(folder / "tensorboard")

    def add(self, record: Record) -> None:
        """Adds the record of an epoch everywhere."""
        self.records.append(record)
        self._write()
        self._events.add(record["epoch"], _scalars(record))

    def close(self) -> None:
        """Ends the TensorBoard file."""
        self._events.close()

    def _write(self) -> None:
        with atomic_file(self._path) as file:
            file.writelines(json.dumps(record).encode() + b"\n" for record in self.records)


def read_log(path: Path) -> list[Record]:
    """The records of a `log.jsonl`; none if there is no file.

    Raises:
      DataFormatError: a line is no record of an epoch; with its number.
    """
    if not path.exists():
        return []
    return [_parse_record(line, path, number) for number, line in read_lines(path)]


def _parse_record(line: str, path: Path, number: int) -> Record:
    try:
        record = json.loads(line)
    except ValueError as cause:
        raise DataFormatError(path, number, 1, "a JSON object", repr(line[:40])) from cause
    expected = {"epoch": int, "loss": float | int, "dev": dict, "best": bool}
    for key, kind in expected.items():
        if not isinstance(record, dict) or not isinstance(record.get(key), kind):
            raise DataFormatError(path, number, 1, f"the record of an epoch, with {key!r}", repr(line[:40]))
    return record


def draw_curve(records: list[Record], path: Path) -> None:
    """Draws the loss and the figures on dev over the epochs into a PNG, whole or not at all."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    epochs = [record["epoch"] for record in records]
    left.plot(epochs, [record["loss"] for record in records], marker=".", color="tab:blue")
    left.set(title="Training loss", xlabel="epoch", ylabel="mean loss of an example")
    for name in records[-1]["dev"] if records else ():
        values = [record["dev"][name] for record in records]
        right.plot(epochs, values, marker=".", label=name.replace("_", ", "))
    right.set(title="Figures on dev", xlabel="epoch")
    if records:
        right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    with atomic_file(path) as file:
        file.write(drawn.getvalue())


def _scalars(record: Record) -> dict[str, float]:
    own = {name: value for name, value in record.items() if name not in ("epoch", "dev", "best")}
    training = {name if name == "loss" or "per_second" in name else f"train/{name}": own[name] for name in own}
    return {**training, **{f"dev/{name}": value for name, value in record["dev"].items()}}
