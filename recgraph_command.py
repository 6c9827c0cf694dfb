"""The `recgraph` command. Each subcommand only reads its options, calls the library, and prints.

It is outside the package, whose import imports TensorFlow: `--version`, `--help` and completion do not need it, and the
command sets TensorFlow's log level first.
"""

from __future__ import annotations

import dataclasses
import errno
import importlib
import json
import math
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import recgraph_doctor
import recgraph_launch

FOLDER = click.Path(file_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
# Named here and not read from `recgraph.models`, which imports TensorFlow.
MODELS = ["tree_lstm", "tree_gru", "tree_rnn", "mv_rnn", "rntn", "child_sum", "child_attention", "parser"]
FAMILIES = ["products", "elementwise", "reductions", "cells", "images", "convolutions", "constants", "everything"]
TASKS = ["fine", "binary", "relatedness", "parsing"]


class NewFile(click.Path):
    """A file to be written, in a folder that is there: what is wrong with it is said before any work begins.

    Args:
        endings: those of its name that tell how to write it; none for any name.
    """

    def __init__(self, *endings: str) -> None:
        super().__init__(dir_okay=False, path_type=Path)
        self._endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuses what could not be written."""
        path: Any = super().convert(value, param, ctx)
        folder = path.absolute().parent
        if not folder.is_dir():
            self.fail(f"there is no folder {str(path.parent)!r}. Make it first: mkdir -p {path.parent}", param, ctx)
        if not os.access(path if path.exists() else folder, os.W_OK):
            self.fail(f"{str(path)!r} cannot be written by this user", param, ctx)
        if self._endings and path.suffix.lower() not in self._endings:
            self.fail(f"{str(path)!r} does not end in one of {', '.join(self._endings)}", param, ctx)
        return path


FILE = NewFile()
PICTURE = NewFile(".png", ".svg", ".pdf", ".eps", ".jpg", ".jpeg", ".ps", ".svgz", ".tif", ".tiff", ".webp")
# A line that is not UTF-8 is told apart from those that are.
LINES = click.File(encoding="utf-8", errors="surrogateescape")
COUNT = click.IntRange(1, 2**31 - 1)
SEED = click.IntRange(0, 2**63 - 1)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
data_option = click.option(
    "--data",
    type=EXISTING_FOLDER,
    envvar="RECGRAPH_DATA",
    help="Folder with train.txt, dev.txt and test.txt, or with SICK. Default: RECGRAPH_DATA.",
)


class Failure(click.ClickException):
    """A message, and the exit status that says to a launcher what kind of failure it is."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click has one for the class


class Stopped(Failure):
    """Ctrl-C: what is left of the work, and how to go on."""

    def show(self, file: Any = None) -> None:
        """Without "Error", which it is not."""
        click.echo(f"\n{self.message}", file=file, err=True)


class Command(click.Command):
    """Reports errors in one sentence, without a traceback (RECGRAPH_TRACEBACK=1 shows it)."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command and turns errors of users and machines into messages."""
        try:
            return self._reporting(ctx)
        except KeyboardInterrupt:
            raise Stopped(f"stopped by Ctrl-C{_kept(ctx)}", 128 + signal.SIGINT) from None

    def _reporting(self, ctx: click.Context) -> Any:
        _import_package()
        from tensorflow.errors import OpError

        from recgraph.data import FetchError
        from recgraph.errors import RecgraphError

        try:
            return super().invoke(ctx)
        except (RecgraphError, FetchError, ValueError, OSError, OpError, MemoryError) as error:
            if isinstance(error, BrokenPipeError) or os.environ.get("RECGRAPH_TRACEBACK"):
                raise
            raise Failure(_message(error), getattr(error, "exit_code", 1)) from error


def _kept(ctx: click.Context) -> str:
    """What a command that was stopped has kept and how to go on; "" for one that keeps nothing."""
    out: Any = ctx.params.get("out")
    work: Any = ctx.params.get("work")
    name = ctx.command.name
    if name in ("train", "demo"):
        again = "the same command without --fresh" if ctx.params.get("fresh") else "the same command"
        return f". {_kept_epochs(out if name == 'train' else out / 'run')}: {again} goes on from there"
    if name == "generate" and "work" in ctx.params:
        if work is None:
            return f", and nothing is kept: {out} is not written. With --work FOLDER, the same command would go on"
        return f". What was enumerated is kept in {work}: the same command goes on from there"
    if name in ("parse", "model", "measure", "export", "fetch") and out is not None:
        return f"; {out} is as it was before"
    return ""


def _kept_epochs(folder: Path) -> str:
    """How far a run has come."""
    parser = folder / "parser"  # trained beside it, when it is done
    trained = parser if (parser / "log.jsonl").exists() else folder
    try:
        epochs = len((trained / "log.jsonl").read_text(encoding="utf-8").splitlines())
    except OSError:
        epochs = 0
    if not epochs:
        return f"No epoch of {trained} had ended"
    return f"{trained} is as it was after epoch {epochs}"


class Supervised(Command):
    """A command that may run as several workers: then this process starts and watches them, without TensorFlow."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps the arguments for the workers."""
        ctx.meta["arguments"] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Starts workers where several are asked for and this process is none of them."""
        if recgraph_launch.SUPERVISED in os.environ:
            return _as_worker(lambda: super(Supervised, self).invoke(ctx))
        plan = _plan(ctx.params, [sys.executable, "-m", "recgraph_command", str(ctx.info_name), *ctx.meta["arguments"]])
        return super().invoke(ctx) if plan is None else ctx.exit(_supervised(plan))


def _as_worker(work: Callable[[], Any]) -> None:
    """Runs a worker's part and ends the process: TensorFlow would wait for workers that are gone before it does."""
    said: click.ClickException | None = None
    status = 0
    try:
        work()
    except click.ClickException as failure:
        said, status = failure, failure.exit_code
    except click.exceptions.Exit as leaving:
        status = leaving.exit_code
    try:
        if said is not None:
            said.show()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # also where nobody is left to read it
        os._exit(status)


def _plan(options: dict[str, Any], command: list[str]) -> recgraph_launch.Plan | None:
    """The workers that the options or the environment ask for; None for none."""
    count, hosts, index, restarts = (options[name] for name in ("workers", "hosts", "index", "max_restarts"))
    if count is not None and hosts is not None:
        raise click.UsageError(
            "--workers starts workers on this machine, --hosts names those of several: give one of them"
        )
    if index is not None and hosts is None:
        raise click.UsageError("--index is this worker's place in --hosts: give both")
    final = frozenset({1, 2})  # what went wrong has been said, and would go wrong again
    if count is not None and count > 1:
        return recgraph_launch.on_this_machine(count, command, restarts, final)
    described = hosts is not None or options["kubernetes"] is not None
    if described or "TF_CONFIG" in os.environ or int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        # Where it is in the cluster the worker finds out by itself.
        return recgraph_launch.Plan(tuple(command), (), index or 0, 1, restarts, final)
    return None


def _supervised(plan: recgraph_launch.Plan) -> int:
    """Runs workers, and says in red what becomes of them."""
    return recgraph_launch.supervise(plan, lambda text: click.secho(text, fg="yellow", err=True))


def _cluster_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options for training with several workers."""
    options = [
        click.option("--workers", type=COUNT, help="Train with so many processes on this machine."),
        click.option("--hosts", help="Train with others: host:port of every worker, with commas. Or set TF_CONFIG."),
        click.option("--index", type=click.IntRange(0), help="Of this worker in --hosts, from 0."),
        click.option(
            "--port", type=click.IntRange(1, 65535), default=2222, envvar="RECGRAPH_PORT", help=_PORT, show_default=True
        ),
        click.option("--kubernetes", help="Label selector of the workers' pods, such as app=train."),
        click.option(
            "--max-restarts", type=click.IntRange(0), default=0, show_default=True, help="After failures of workers."
        ),
        click.option("--timeout", type=click.FloatRange(1), default=60, show_default=True, help=_TIMEOUT),
        click.option("--start-timeout", type=click.FloatRange(1), default=300, show_default=True, help=_START_TIMEOUT),
        click.option("--deterministic", is_flag=True, help="The same bits in every run and for 1 to 8 workers."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


_PARSER_EPOCHS = "Of the parser trained beside a classifier, which plain sentences need; 0 for none."
_PARSER = "A run that parses plain sentences. Default: the parser in the folder of RUN."
_PORT = "Of workers whose scheduler knows their hosts alone."
_TIMEOUT = "Seconds in a step after which a worker that does not answer is taken as lost."
_START_TIMEOUT = "Seconds for all workers to be there."


# Of each model, in the order of these options: as in `recgraph.models`, which imports TensorFlow.
HYPER = ("--embedding", "--hidden", "--dropout", "--l2", "--batch-size", "--learning-rate", "--embedding-rate")
DEFAULTS = {
    "tree_lstm": (300, 150, 0.5, 0.0001, 25, 0.05, 0.1),
    "tree_gru": (150, 150, 0.5, 0.0001, 25, 0.05, 0.1),
    "tree_rnn": (30, 30, 0.0, 0.0001, 25, 0.02, 3.0),
    "mv_rnn": (200, 25, 0.0, 0.0001, 25, 0.02, 1.0),
    "rntn": (30, 30, 0.0, 0.0001, 25, 0.02, 1.0),
    "child_sum": (300, 150, 0.0, 0.0001, 25, 0.05, 0.1),
    "child_attention": (300, 150, 0.0, 0.0001, 25, 0.05, 0.1),
    "parser": (100, 100, 0.05, 0.0001, 25, 0.05, 0.1),
}


class Train(Supervised):
    """Its help has the defaults of each model."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes them as a table."""
        heads = [option.removeprefix("--").rpartition("-")[::2] for option in HYPER]
        rows = [("", *(first and f"{first}-" for first, _ in heads)), ("", *(last for _, last in heads))]
        rows += [(model, *(f"{value:g}" for value in values)) for model, values in DEFAULTS.items()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        with formatter.section("Defaults of the models"):
            for row in rows:
                numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
                formatter.write(f"{' ' * formatter.current_indent}{' '.join([row[0].ljust(widths[0]), *numbers])}\n")


class Group(click.Group):
    """A group of such commands. TensorFlow is not imported for what the group itself can answer."""

    command_class = Command
    group_class = type


def _message(error: BaseException) -> str:
    """What an exception says, for a person."""
    if isinstance(error, MemoryError):
        return f"out of memory: {error}. Give a smaller --hidden, --embedding or --batch-size"
    if hasattr(error, "message") and hasattr(error, "error_code"):  # TensorFlow's, with names of its own in it
        text = re.sub(r"\{\{.*?\}\}|\[Op:[^\]]*\]( name:)?", "", error.message).strip()
        advice = ". Give a smaller --hidden, --embedding or --batch-size" if error.error_code == 8 else ""
        return f"{type(error).__name__}: {text.splitlines()[0] if text else error}{advice}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EIO) and error.filename is None:
        return f"standard output cannot be written: {error}"  # a file would have been named
    return str(error)


def _import_package() -> None:
    """Imports recgraph, with TensorFlow's log level at errors alone, unless the user sets it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        importlib.import_module("recgraph")
    except ImportError as error:  # recgraph.errors.NativeLibraryError says what to do
        if os.environ.get("RECGRAPH_TRACEBACK"):
            raise
        raise Failure(str(error), 1) from error


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="recgraph", message=f"%(prog)s %(version)s ({recgraph_doctor.versions()})")
def main() -> None:
    """Recursive neural networks on TensorFlow: train, evaluate, draw and serve them."""


class Refused:
    """Reports each unusable line of input at once, and makes the command fail at the end."""

    count = 0

    def __call__(self, error: Exception) -> None:
        """Reports one."""
        self.count += 1
        click.echo(f"Error: {error}", err=True)

    def end(self) -> None:
        """Fails if there were any."""
        if self.count:
            raise click.exceptions.Exit(1)


class Rate(click.FloatRange):
    """A finite number that is not negative."""

    def __init__(self, **bounds: Any) -> None:
        super().__init__(min=0, **bounds)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuses `nan` and `inf`, which pass every comparison with a bound."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


def _hyper_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options for the hyper-parameters; what is left out has the model's default."""
    options = [
        click.option("--embedding", type=COUNT, help="Size of a word vector. Default: the model's, below."),
        click.option("--hidden", type=COUNT, help="Size of a node's state. Default: the model's, below."),
        click.option(
            "--dropout", type=Rate(max=1, max_open=True), help="Rate before the output. Default: the model's, below."
        ),
        click.option("--l2", type=Rate(), help="Weight decay, not of the embedding. Default: the model's, below."),
        click.option("--batch-size", type=COUNT, help="Trees, or pairs, per step. Default: the model's, below."),
        click.option("--learning-rate", type=Rate(), help="Adagrad, for the weights. Default: the model's, below."),
        click.option(
            "--embedding-rate", type=Rate(), help="Gradient descent, for the embedding. Default: the model's, below."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@main.command(cls=Train)
@click.option("--model", type=click.Choice(MODELS), default="tree_lstm", show_default=True)
@data_option
@click.option("--out", type=FOLDER, required=True, help="Folder of the run; an existing run is continued.")
@click.option("--task", type=click.Choice(TASKS), default="fine", show_default=True)
@click.option("--epochs", type=COUNT, default=30, show_default=True)
@click.option(
    "--patience", type=COUNT, default=6, show_default=True, help="Stop after so many epochs without improvement on dev."
)
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option(
    "--vectors", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Pre-trained word vectors."
)
@_hyper_options
@click.option("--parser-epochs", type=click.IntRange(0), default=5, show_default=True, help=_PARSER_EPOCHS)
@click.option("--engine", type=click.Choice(["auto", "parallel", "batched"]), default="auto", show_default=True)
@click.option("--gradient", type=click.Choice(["cache", "recompute"]), default="cache", show_default=True)
@click.option("--implementation", type=click.Choice(["recursive", "iterative"]), default="recursive", hidden=True)
@click.option("--fresh", is_flag=True, help="Delete an existing run in the folder.")
@_cluster_options
@json_option
def train(out: Path, data: Path | None, vectors: Path | None, fresh: bool, as_json: bool, **options: Any) -> None:
    """Train a model. The same command continues a run that was stopped, with any number of workers."""
    from recgraph.distribute import distribute
    from recgraph.train import console, tasks
    from recgraph.train.settings import Settings

    names = ("embedding", "hidden", "dropout", "l2", "batch_size", "learning_rate", "embedding_rate")
    hyper = {name: options.pop(name) for name in names}
    hosts, index, parser_epochs = (options.pop(name) for name in ("hosts", "index", "parser_epochs"))
    described = {"hosts": hosts.split(",") if hosts else None, "index": index}
    described |= {name: options.pop(name) for name in ("kubernetes", "port", "timeout", "start_timeout")}
    del options["workers"], options["max_restarts"]  # for the process that started this one
    # First, because TensorFlow does not join a cluster once it has been used.
    cluster = distribute(**described) if recgraph_launch.SUPERVISED in os.environ else None
    settings = Settings(
        data=str(tasks.TASKS[options["task"]].folder(data).resolve()),
        vectors=str(vectors.resolve()) if vectors else None,
        hyper={name: value for name, value in hyper.items() if value is not None},
        **options,
    )
    # A worker that was started again after a failure continues, though the command says --fresh.
    is_fresh = fresh and os.environ.get(recgraph_launch.RESTART, "0") == "0"
    console.train(out, settings, is_fresh, as_json, cluster, parser_epochs)


@main.command()
@click.argument("run", type=EXISTING_FOLDER)
@data_option
@click.option("--split", type=click.Choice(["train", "dev", "test"]), default="test", show_default=True)
@json_option
def evaluate(run: Path, data: Path | None, split: str, as_json: bool) -> None:
    """Evaluate a trained RUN: accuracy at the root and at all nodes, correlations, or bracket F1, by task."""
    from recgraph.train import console

    console.evaluate(run, data, split, as_json)


@main.command()
@click.argument("run", type=EXISTING_FOLDER)
@click.argument("file", type=LINES, default="-")
@click.option("--nodes", is_flag=True, help="Also print the tree with the class of every phrase.")
@click.option("--parser", type=EXISTING_FOLDER, help=_PARSER)
@json_option
def predict(run: Path, file: Any, nodes: bool, parser: Path | None, as_json: bool) -> None:
    """Classify the lines of FILE (or standard input): trees in PTB form, or plain sentences.

    Plain sentences get trees by the parser that was trained beside RUN, or by --parser. Where there is none they get
    balanced trees, with a warning. Probabilities allow for words that the model does not know, which are named.

    Lines that are neither are reported on standard error and skipped; the exit status is then 1. Empty lines are
    passed over.
    """
    from recgraph.train import console, predictor
    from recgraph.train.run import load_classifier

    refused = Refused()
    inputs = predictor.read_inputs(file, getattr(file, "name", "<stdin>"), refused)
    for prediction in console.predict(load_classifier(run), inputs, parser):
        click.echo(console.prediction_line(prediction, nodes, as_json))
    refused.end()


@main.command()
@click.argument("run", type=EXISTING_FOLDER)
@click.option("--out", type=PICTURE, default="tree.png", show_default=True, help="Picture: .png, .svg or .pdf.")
@click.option("--input", "text", help="A tree in PTB form or a sentence.")
@data_option
@click.option("--split", type=click.Choice(["train", "dev", "test"]), default="dev", show_default=True)
@click.option("--index", type=click.IntRange(0), default=0, show_default=True, help="Which tree of the split.")
@click.option("--parser", type=EXISTING_FOLDER, help=_PARSER)
@json_option
def show(run: Path, out: Path, text: str | None, parser: Path | None, as_json: bool, **chosen: Any) -> None:
    """Draw a tree with the predicted and the true sentiment of every phrase."""
    from recgraph.train import console
    from recgraph.train.run import load_classifier

    loaded = load_classifier(run)
    tree = console.chosen_tree(text, chosen["data"] or loaded.settings.data, chosen["split"], chosen["index"])
    (prediction,) = console.predict(loaded, [tree], parser)
    console.show(prediction, out, as_json)


def _batching_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options for how signatures batch requests that come at the same time."""
    options = [
        click.option("--batch-size", type=click.IntRange(0), default=64, show_default=True, help=_BATCH_SIZE),
        click.option("--batch-delay", type=Rate(), default=0.0, show_default=True, help=_BATCH_DELAY),
        click.option("--batch-threads", type=COUNT, default=1, show_default=True, help="Batches run at the same time."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


_BATCH_SIZE = "Sentences of requests that are run as one, at most; 0 runs each request alone."
_BATCH_DELAY = "Milliseconds that a batch waits for others; without any, what comes while one runs is the next."


@main.command()
@click.argument("run", type=EXISTING_FOLDER)
@click.option("--out", type=FOLDER, required=True, help="Folder of the SavedModel.")
@click.option("--optimize", is_flag=True, help="Rewrite SubGraphs by proven substitutions where that measures faster.")
@click.option("--parser", type=EXISTING_FOLDER, help=_PARSER)
@_batching_options
def export(run: Path, out: Path, optimize: bool, parser: Path | None, **batching: Any) -> None:
    """Save a trained RUN as a SavedModel with signatures for sentences and for trees.

    Requests that come at the same time are batched inside of the graph, whatever serves it.
    """
    from recgraph.train import console

    for line in (*console.export(run, out, optimize, parser, **batching), str(out)):
        click.echo(line)


@main.command()
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at: 0.0.0.0 for all networks.")
@click.option("--port", type=click.IntRange(0, 65535), default=8501, show_default=True, help="0 for any that is free.")
@click.option("--name", help="Of the model, in the paths of requests. Default: the name of FOLDER.")
@click.option("--requests", type=COUNT, default=128, show_default=True, help="In progress at most; others get 429.")
@click.option("--kilobytes", type=COUNT, default=1024, show_default=True, help="Of a request at most.")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True,
    help="That the head of a request, its body, and the reading of its answer may take each.",
)  # fmt: skip
@click.option("--connections", type=COUNT, default=512, show_default=True, help="Open at most; others get 503.")
@click.option("--parser", type=EXISTING_FOLDER, help=_PARSER)
@_batching_options
def serve(folder: Path, host: str, port: int, name: str | None, parser: Path | None, **options: Any) -> None:
    """Serve FOLDER, a trained run or a SavedModel, in the form of TensorFlow Serving's REST interface.

    POST /v1/models/NAME:predict predicts, /v1/models/NAME and its /metadata describe the model, /healthz says whether
    the server is well, and /metrics is for Prometheus. The server has no encryption and no passwords. SIGTERM and
    Ctrl-C end it when all that it has accepted is answered.
    """
    from recgraph.serve import require_extra

    require_extra()
    from recgraph.serve.limits import Limits
    from recgraph.serve.running import serve as serve_model
    from recgraph.train import console

    limits = Limits(*(options.pop(each) for each in ("requests", "kilobytes", "seconds", "connections")))
    with console.saved_model(folder, parser, **options) as saved:
        serve_model(saved, name or folder.resolve().name, host, port, limits, click.echo)


@main.group()
def data() -> None:
    """Generate, download, parse and describe treebanks."""


@data.command()
@click.option("--out", type=FOLDER, required=True)
@click.option("--sizes", type=click.IntRange(0), nargs=3, default=(3000, 400, 800), show_default=True)
@click.option("--seed", type=SEED, default=0, show_default=True)
def generate(out: Path, sizes: tuple[int, int, int], seed: int) -> None:
    """Generate a treebank from a grammar, with labels that follow from composition: train, dev and test."""
    from recgraph.data import write_treebank

    write_treebank(out, sizes, seed)
    click.echo(f"{sum(sizes)} trees in {out}")


@data.command()
@click.argument("name", type=click.Choice(["sst", "imdb"]))
@click.option("--out", type=FOLDER, required=True, envvar="RECGRAPH_DATA", help="The data folder.")
@click.option("--url", help="Another location of the same archive.")
def fetch(name: str, out: Path, url: str | None) -> None:
    """Download the original Stanford Sentiment Treebank or Large Movie Review Dataset."""
    from recgraph.data import fetch as download

    click.echo(str(download(name, out, url=url)))


@data.command()
@click.argument("file", type=LINES, default="-")
@click.option("--parser", type=EXISTING_FOLDER, required=True, help="A run of `train --model parser --task parsing`.")
@click.option("--model", type=EXISTING_FOLDER, help="A run that labels every node with its sentiment.")
@click.option("--reviews", type=click.Choice(["train", "test", "unsup"]), help="Parse movie reviews instead of FILE.")
@data_option
@click.option("--limit", type=click.IntRange(0), help="Maximum number of lines or reviews.")
@click.option("--max-words", type=click.IntRange(1), help="Skip longer sentences.")
@click.option("--out", type=FILE, help="Write the trees to this file instead of standard output.")
def parse(file: Any, parser: Path, model: Path | None, out: Path | None, **options: Any) -> None:
    """Parse the sentences of FILE (or standard input) into trees in PTB form, one per line.

    Without --model, nodes have the label ?, except the roots of reviews, which have 0 or 4.
    """
    from recgraph.train import parsing

    refused = Refused()
    source = getattr(file, "name", "<stdin>")
    written = parsing.parse(parsing.Request(file, parser, model, source=source, refuse=refused, **options), out)
    if out is not None:
        click.echo(f"{written} trees in {out}")
    refused.end()


@data.command()
@click.argument("folder", type=EXISTING_FOLDER)
@json_option
def stats(folder: Path, as_json: bool) -> None:
    """Print numbers of trees, nodes, words, labels and depths of a treebank."""
    from recgraph.train import console

    console.stats(folder, as_json)


@main.group()
def optimize() -> None:
    """Generate substitutions of parts of graphs, prove them, and measure what operators cost."""


@optimize.command("generate")
@click.option("--family", "families", multiple=True, type=click.Choice(FAMILIES), help="Repeatable. Default: all.")
@click.option("--operators", type=click.IntRange(1, 4), help="Operators of a graph at most. Default: the family's own.")
@click.option("--repetitions", type=click.IntRange(0), help="How often inputs may be used again. Default: any number.")
@click.option("--processes", type=COUNT, default=2, show_default=True, help="Processes that enumerate graphs.")
@click.option("--work", type=FOLDER, help="Folder for what was enumerated: a run that was stopped is continued.")
@click.option("--seconds", type=Rate(), help="How long to look at the candidates of a family. Default: at all of them.")
@click.option("--out", type=FILE, required=True, help="The file of substitutions.")
@json_option
def generate_substitutions(out: Path, as_json: bool, **options: Any) -> None:
    """Enumerate graphs, find those that compute the same, prove it, and write them as substitutions."""
    from recgraph.optimize import console

    console.generate(console.GenerationRequest(**options), out, as_json)


@optimize.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--effort", type=COUNT, default=5_000_000, show_default=True, help="When to give up on one, in z3's units."
)
@json_option
def verify(file: Path, effort: int, as_json: bool) -> None:
    """Prove each substitution of FILE anew; the exit status is 1 if one is refused."""
    from recgraph.optimize import console

    if console.verify(file, effort, as_json):
        raise click.exceptions.Exit(1)


@optimize.command("measure")
@click.option("--rows", type=COUNT, multiple=True, default=(1, 25), show_default=True, help="Of matrices. Repeatable.")
@click.option(
    "--size", "sizes", type=COUNT, multiple=True, default=(64, 150, 300, 600), show_default=True, help="Repeatable."
)
@click.option("--out", type=FILE, help="The file. Default: in the user's cache folder, where searches look for it.")
def measure_operators(rows: tuple[int, ...], sizes: tuple[int, ...], out: Path | None) -> None:
    """Time operators on this machine: by these costs, searches choose among graphs that compute the same."""
    from recgraph.optimize.bridge import console

    console.measure(rows, sizes, out)


@optimize.command("model")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--out", type=FOLDER, required=True, help="Folder of the new SavedModel; another one than FOLDER.")
@click.option("--seconds", type=click.FloatRange(0.0), default=10.0, show_default=True, help="For each signature.")
@click.option(
    "--search", type=click.Choice(("backtracking", "saturation")), default="backtracking", show_default=True,
    help="Saturation applies all substitutions at once, and needs egglog.",
)  # fmt: skip
def optimize_model(folder: Path, out: Path, seconds: float, search: str) -> None:
    """Make the signatures of a SavedModel faster, where that is measured: `import recgraph` before it is loaded."""
    from recgraph.optimize.bridge import console

    if out.resolve() == folder.resolve():
        raise click.UsageError("--out must be another folder than the SavedModel's")
    console.model(folder, out, seconds, search)


# The module of each.
BENCHMARKS = {"sst": "throughput", "keras": "fitting", "public": "public.command"} | {
    name: name
    for name in (
        "balance",
        "dynamic_programming",
        "generation",
        "invocation",
        "levels",
        "machinery",
        "depth",
        "speculate",
        "eager",
        "coexec",
        "scaling",
        "substitution",
        "networks",
        "rewriting",
        "serving",
        "first_step",
        "sweep",
    )
}


# What each measures, for the help.
MEASURES = {
    "sst": "Trees a second of sentiment models, training and inference, beside loops and other libraries.",
    "keras": "Keras models under `fit`: eagerly, by Keras's own graph, and with rg.keras.compile.",
    "public": "Public programs: how much of them becomes graphs, how fast these are, and how soon.",
    "balance": "What the shape of trees costs: balanced, moderate and linear ones.",
    "dynamic_programming": "Tables a second, by plain recursion and by loops that are written by hand.",
    "generation": "A top-down TreeLSTM, which makes trees: by both engines and as loops.",
    "levels": "Levels in TensorFlow's own operations, plain and compiled by XLA, beside the batched engine.",
    "machinery": "What calls, invocations and runs of blocks cost beyond arithmetic.",
    "invocation": "What an invocation costs, with every scheduling policy: Fibonacci numbers.",
    "depth": "How deep a recursion goes, and time and memory of a level.",
    "speculate": "The programs of the JANUS paper: eagerly, by tf.function, by hand, and by rg.function.",
    "eager": "The programs of the TensorFlow Eager paper in its three ways, and by rg.function.",
    "coexec": "The programs of the Terra paper: eagerly, by tf.function, and co-executed.",
    "scaling": "Training on several workers, on network namespaces as hosts.",
    "substitution": "Cells as they are printed beside the same as an expert would write them.",
    "networks": "TASO's networks for one example: TensorFlow alone, XLA, and with substitutions.",
    "rewriting": "Training in the default mode of rg.function, with and without substitutions.",
    "serving": "Requests a second, latency and memory of a server, with batches of requests and without.",
    "first_step": "What the first step of `fit` takes where a model has recursions, by part.",
    "sweep": "Programs that make a model and an optimizer again and again, for some steps each.",
}


class Bench(Command):
    """Options are the benchmark's; without a name `--help` is about all of them."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Says what each measures."""
        with formatter.section("Benchmarks"):
            formatter.write_dl(list(MEASURES.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Shows the help of the command where no benchmark is named."""
        if args and args[0] in ("-h", "--help"):
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)


@main.command(cls=Bench, context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("name", type=click.Choice(list(BENCHMARKS)), default="sst")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(name: str, arguments: tuple[str, ...]) -> None:
    """Run a benchmark, `sst` where none is named; `recgraph bench NAME --help` shows its options."""
    benchmark = importlib.import_module(f"recgraph.benchmarks.{BENCHMARKS[name]}")
    benchmark.main(list(arguments), prog_name=f"recgraph bench {name}")


@main.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--html", "page", type=FILE, help="Write an HTML page with the program's lines instead of text.")
@click.option("--picture", type=PICTURE, help="Draw where the time of co-executed steps goes.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def explain(script: Path, arguments: tuple[str, ...], page: Path | None, picture: Path | None) -> None:
    """Run the program SCRIPT with its training functions as graphs, and explain what became of them.

    The program runs unchanged inside `with rg.speculation()`. The report says what ran how, where the time went, and
    what kept calls from running as graphs; then what is known of each function, of those that the program created with
    `rg.function` and `rg.steps`, too.
    """
    from recgraph.auto.overview import CallSampler, overview
    from recgraph.coexec.profile import draw
    from recgraph.explaining import joined, noted
    from recgraph.files import write_text
    from recgraph.speculate import speculation
    from recgraph.speculate.run.undecorated import run_script

    status: Any = 0
    found = speculation()
    with noted() as made, CallSampler(found.found.names) as looking:
        try:
            run_script(script, list(arguments), found)
        except SystemExit as leaving:
            status = leaving.code
        except Exception:  # the program's own, which is to be seen as without us
            traceback.print_exc()
            status = 1
    parts = [one.explain() for one in [*([found] if found.functions or not made else []), *made]]
    click.echo(overview(script.name, looking, [*found.functions.values(), *made]))
    if page is None:
        click.echo("\n".join(["", "In detail:", *parts]))
    else:
        write_text(page, joined(parts, "").page(f"recgraph explain {script.name}"))
        click.echo(str(page))
    timings = [one.timing() for one in made if hasattr(one, "timing")]
    timings = [timing for timing in timings if timing.steps]
    for timing in timings:
        click.echo(str(timing))
    if picture is not None:
        draw(timings, picture)
        click.echo(str(picture))
    if status:
        raise SystemExit(status)


@main.command(cls=click.Command, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("workers", type=COUNT)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--max-restarts", type=click.IntRange(0), default=0, show_default=True, help="After failures of workers.")
@click.pass_context
def launch(ctx: click.Context, workers: int, command: tuple[str, ...], max_restarts: int) -> None:
    """Run COMMAND as so many WORKERS on this machine: recgraph launch 4 -- python my_training.py

    Each gets its place in the cluster by TF_CONFIG; `rg.distribute()` in the program brings the cluster up. When a
    worker fails, all are ended, and started again as often as --max-restarts allows. The output of all but the first
    has their number in front.
    """
    program = command[1:] if command[0] == "--" else command
    if not program:
        raise click.UsageError("no command to run: recgraph launch 2 -- python my_training.py")
    ctx.exit(_supervised(recgraph_launch.on_this_machine(workers, program, max_restarts)))


@main.command()
@click.option("--hosts", required=True, help="host:port of all servers, with commas between them.")
@click.option("--index", type=click.IntRange(0), default=0, show_default=True, help="Which of them this is.")
def worker(hosts: str, index: int) -> None:
    """Run a server on which other programs call SubGraphs, in `with tf.device("/job:worker/task:INDEX")`.

    A program connects to the servers by tf.config.experimental_connect_to_cluster. The server has no protection:
    whoever reaches its port can run any operation of TensorFlow.
    """
    from recgraph.distribute.server import serve

    serve(hosts.split(","), index)


@main.command(cls=click.Command)
@json_option
def doctor(as_json: bool) -> None:
    """Look whether Python, TensorFlow and recgraph's libraries fit together; the exit status is 1 where they do not."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    is_good = True
    for finding in recgraph_doctor.examine():
        is_good = is_good and finding.is_good
        if as_json:
            click.echo(json.dumps(dataclasses.asdict(finding)))
        else:
            mark = click.style("ok", fg="green") if finding.is_good else click.style("WRONG", fg="red")
            click.echo(f"{finding.what:<12} {mark:<5} {finding.found}")
    if not is_good:
        raise click.exceptions.Exit(1)


@main.command()
@click.option("--out", type=FOLDER, required=True)
@click.option("--seed", type=SEED, default=0, show_default=True)
@json_option
def demo(out: Path, seed: int, as_json: bool) -> None:
    """Generate a treebank, train a TreeLSTM, evaluate it, draw what it learned, and save it, in a few minutes."""
    from recgraph.train.demo import run_demo

    run_demo(out, seed, as_json)


if __name__ == "__main__":
    main()
