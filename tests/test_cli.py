"""The `recgraph` command, as a user types it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import recgraph_command as cli
from recgraph.optimize import families
from recgraph.train.tasks import TASKS
from recgraph_command import main

TINY = ["--embedding", "8", "--hidden", "8", "--batch-size", "10", "--epochs", "1", "--parser-epochs", "0"]


def run(*arguments: object, text: str | None = None) -> Result:
    """Runs a command; standard output and standard error are in the result."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=text)


def lines(result: Result) -> list[dict[str, object]]:
    """The JSON lines that a command printed."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a treebank and a run."""
    folder = tmp_path_factory.mktemp("cli")
    assert run("data", "generate", "--out", folder / "bank", "--sizes", 30, 10, 10).exit_code == 0
    done = run("train", "--data", folder / "bank", "--out", folder / "run", *TINY)
    assert done.exit_code == 0, done.output
    return folder


COMMANDS = [
    "train",
    "evaluate",
    "predict",
    "show",
    "export",
    "serve",
    "explain",
    "demo",
    "launch",
    "data",
    "data-generate",
    "data-fetch",
    "data-parse",
    "data-stats",
    "optimize",
    "optimize-generate",
    "optimize-verify",
]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_explains_itself(command: str) -> None:
    """The first thing that a user tries."""
    done = run(*command.split("-"), "--help") if command else run("--help")
    assert done.exit_code == 0
    assert "Usage:" in done.output


def test_every_model_of_every_task_can_be_asked_for() -> None:
    """The command names them without importing them."""
    assert set(cli.MODELS) == {name for task in TASKS.values() for name in task.models}
    assert list(TASKS) == cli.TASKS


def test_every_family_of_operators_can_be_asked_for() -> None:
    """The command names them without importing them."""
    assert list(families.FAMILIES) == cli.FAMILIES


def test_stats_count_the_trees(folder: Path) -> None:
    """Both forms."""
    (record,) = lines(run("data", "stats", folder / "bank", "--json"))
    assert {name: split["trees"] for name, split in record.items()} == {"train": 30, "dev": 10, "test": 10}
    assert "labels of roots" in run("data", "stats", folder / "bank").output


def test_training_prints_a_record_an_epoch(folder: Path, tmp_path: Path) -> None:
    """JSON lines for other programs."""
    (record,) = lines(run("train", "--data", folder / "bank", "--out", tmp_path, *TINY, "--json"))
    assert record["epoch"] == 1
    assert set(record["dev"]) == {"root", "nodes", "root_binary", "nodes_binary"}


def test_the_same_command_again_continues(folder: Path) -> None:
    """And says so."""
    done = run("train", "--data", folder / "bank", "--out", folder / "run", *TINY)
    assert done.exit_code == 0
    assert "continuing" in done.output
    assert "after epoch 1" in done.output


def test_evaluate(folder: Path) -> None:
    """A table, or JSON."""
    (record,) = lines(run("evaluate", folder / "run", "--json"))
    assert record["split"] == "test"
    assert record["trees"] == 10
    assert 0 <= record["root"] <= 1
    assert "fine-grained" in run("evaluate", folder / "run").output


def test_predict_reads_sentences_and_trees_from_standard_input(folder: Path) -> None:
    """One line in, one line out."""
    records = lines(run("predict", folder / "run", "--json", "--nodes", text="It is good.\n(3 (2 quite) (3 good))\n"))
    assert [record["sentence"] for record in records] == ["It is good .", "quite good"]
    assert records[1]["tree"].count("(") == 3
    assert sum(records[0]["probabilities"]) == pytest.approx(1, abs=1e-4)


def test_predict_reads_a_file(folder: Path) -> None:
    """The trees of the treebank."""
    done = run("predict", folder / "run", folder / "bank" / "dev.txt")
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 10


def test_show_draws(folder: Path, tmp_path: Path) -> None:
    """A tree of the treebank, and a sentence."""
    assert run("show", folder / "run", "--out", tmp_path / "a.png", "--index", 3).exit_code == 0
    (record,) = lines(run("show", folder / "run", "--out", tmp_path / "b.svg", "--input", "not bad", "--json"))
    assert record["sentence"] == "not bad"
    assert (tmp_path / "a.png").exists()
    assert (tmp_path / "b.svg").exists()


def test_export_writes_a_saved_model(folder: Path, tmp_path: Path) -> None:
    """It is there."""
    assert run("export", folder / "run", "--out", tmp_path / "saved").exit_code == 0
    assert (tmp_path / "saved" / "saved_model.pb").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "{run}", "--input", ""], "--input:1:1: expected a tree or a sentence, found an empty line"),
        (["evaluate", "{bank}"], "this folder contains no training run"),
        (["train", "--data", "{bank}", "--out", "{run}", "--seed", "9", *TINY], "a run with other settings"),
        (["train", "--data", "{run}", "--out", "{run}/x"], "no treebank in"),
        (["train", "--model", "rntn", "--hidden", "3", "--data", "{bank}", "--out", "{run}/x"], "must be equal"),
        (["train", "--model", "child_sum", "--data", "{bank}", "--out", "{run}/x"], "give --task relatedness"),
        (["show", "{run}", "--index", "99"], "--index 99: dev has 10 trees; the last index is 9"),
    ],
)
def test_mistakes_get_a_sentence_and_no_traceback(folder: Path, arguments: list[str], message: str) -> None:
    """And the exit code of a failure."""
    filled = [argument.format(run=folder / "run", bank=folder / "bank") for argument in arguments]
    done = run(*filled, text="\n")
    assert done.exit_code == 1
    assert message in done.output
    assert "Traceback" not in done.output


def test_empty_lines_and_a_byte_order_mark_are_passed_over(folder: Path) -> None:
    """As editors and other systems leave them."""
    done = run("predict", folder / "run", "--json", text="\ufeff\n(3 (2 good) (2 film))\n\n  \r\nbad film\n\n")
    assert done.exit_code == 0
    assert "Error" not in done.stderr
    assert [record["sentence"] for record in lines(done)] == ["good film", "bad film"]


@pytest.mark.parametrize(
    "command",
    [
        "show {run} --out {out}",
        "data parse --parser {run} --out {out}",
        "optimize generate --out {out}",
        "optimize measure --out {out}",
        "explain --html {out} {bank}/dev.txt",
        "explain --picture {out} {bank}/dev.txt",
    ],
)
def test_a_file_in_a_folder_that_is_not_there(folder: Path, tmp_path: Path, command: str) -> None:
    """Before any work begins: the options are looked at first."""
    out = tmp_path / "nowhere" / "x.png"
    done = run(*command.format(run=folder / "run", bank=folder / "bank", out=out).split())
    assert done.exit_code == 2
    assert done.stderr.endswith(f": there is no folder '{out.parent}'. Make it first: mkdir -p {out.parent}\n")
    assert not out.parent.exists()


def test_a_picture_of_an_unknown_kind(folder: Path, tmp_path: Path) -> None:
    done = run("show", folder / "run", "--out", tmp_path / "x.jpx")
    assert done.exit_code == 2
    assert "x.jpx' does not end in one of .png, .svg, .pdf, " in done.stderr


def test_the_defaults_of_each_model_are_in_the_help() -> None:
    from recgraph.models import MODELS, PAIR_MODELS, PARSERS

    found = {**MODELS, **PAIR_MODELS, **PARSERS}
    names = [option.removeprefix("--").replace("-", "_") for option in cli.HYPER]
    expected = {name: tuple(getattr(model.defaults, one) for one in names) for name, model in found.items()}
    assert expected == cli.DEFAULTS
    assert list(cli.DEFAULTS) == cli.MODELS
    text = run("train", "--help").output
    assert re.search(r"^  tree_lstm +300 +150 +0\.5 0\.0001 +25 +0\.05 +0\.1$", text, re.M)
    assert max(map(len, text[text.index("Defaults of the models:") :].splitlines())) <= 80


def test_what_each_benchmark_measures_is_in_the_help() -> None:
    assert set(cli.MEASURES) == set(cli.BENCHMARKS)
    text = run("bench", "--help").output
    for name in cli.BENCHMARKS:
        assert re.search(rf"^  {name} +[A-Z]", text, re.M)


def test_ctrl_c_says_what_is_kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And how to go on."""
    from recgraph.train import console

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(console, "train", stop)
    trained, out = folder / "run", tmp_path / "new"
    known = len((trained / "log.jsonl").read_text().splitlines())
    done = run("train", "--data", folder / "bank", "--out", out)
    expected = f"\nstopped by Ctrl-C. No epoch of {out} had ended: the same command goes on from there\n"
    assert (done.exit_code, done.stderr) == (130, expected)
    copied = tmp_path / "run"
    copied.mkdir()
    shutil.copy(trained / "log.jsonl", copied)
    done = run("train", "--data", folder / "bank", "--out", copied, "--fresh")
    assert done.exit_code == 130
    assert done.stderr == (
        f"\nstopped by Ctrl-C. {copied} is as it was after epoch {known}: the same command without --fresh goes on "
        "from there\n"
    )
    monkeypatch.setattr(console, "predict", stop)
    done = run("predict", trained, text="good\n")
    assert (done.exit_code, done.stderr) == (130, "\nstopped by Ctrl-C\n")


def test_ctrl_c_ends_a_process(folder: Path, tmp_path: Path) -> None:
    """With the status that a shell expects, and no traceback."""
    program = tmp_path / "program.py"
    program.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor i in range(10**9): pass\n")
    done = loud("explain", program)
    assert done.returncode == 130
    assert done.stderr == "\nstopped by Ctrl-C\n"


def write_pairs(folder: Path) -> None:
    """A tiny SICK, three times the same."""
    for split in ("train", "dev", "test"):
        (folder / split).mkdir(parents=True)
        texts = {"toks": "a dog barks\nno\nit is", "parents": "2 3 0\n0\n2 0"}
        for name, text in {f"{side}.{kind}": text for side in "ab" for kind, text in texts.items()}.items():
            (folder / split / name).write_text(text + "\n", encoding="utf-8")
        (folder / split / "sim.txt").write_text("5\n1.2\n3\n", encoding="utf-8")


def test_relatedness_is_trained_and_evaluated(tmp_path: Path) -> None:
    """Correlations in place of accuracies; what needs a classifier says so."""
    write_pairs(tmp_path / "sick")
    options = ["--model", "child_sum", "--task", "relatedness", "--data", tmp_path, "--out", tmp_path / "run", *TINY]
    (record,) = lines(run("train", *options, "--json"))
    assert set(record["dev"]) == {"pearson", "spearman", "mse"}
    assert {"loss", "mse", "pairs_per_second"} <= set(record)
    (figures,) = lines(run("evaluate", tmp_path / "run", "--json"))
    assert figures["pairs"] == 3
    assert "spearman" in run("evaluate", tmp_path / "run").output
    done = run("predict", tmp_path / "run", text="a dog\n")
    assert done.exit_code == 1
    assert "this run does not classify sentences" in done.output


def test_explain_runs_a_program_and_says_what_became_of_it(tmp_path: Path) -> None:
    """As it is, with its arguments; as text, as a page, and with the program's own errors."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nimport tensorflow as tf\nw = tf.Variable(2.0)\n\n\ndef step(x):\n"
        "    with tf.GradientTape() as tape:\n        loss = (w * x) ** 2\n"
        "    w.assign_sub(0.1 * tape.gradient(loss, w))\n    return loss\n\n\n"
        "for i in range(int(sys.argv[2])):\n    print('loss', float(step(tf.constant(1.0))))\n"
    )
    done = run("explain", program, "--rounds", 6)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("loss ") >= 6
    assert "step: 3 eager, 2 graph, 0 fallback" in done.stdout
    screen = done.stdout[done.stdout.index("program.py took ") : done.stdout.index("In detail:")]
    assert re.search(r"step \(.*program.py:6\): \d+\.\d s, \d+% of it", screen)
    assert "Calls: 3 eagerly, 2 as one graph." in screen
    assert "Everything else: " in screen
    assert "Nothing kept a call from running as a graph." in screen
    done = run("explain", "--html", tmp_path / "page.html", program, "--rounds", 6)
    assert done.exit_code == 0, done.output
    assert "loss = (w * x) ** 2" in (tmp_path / "page.html").read_text()
    program.write_text(
        "import tensorflow as tf\nimport recgraph as rg\nw = tf.Variable(2.0)\n\n\n"
        "for x in rg.steps([1.0] * 12):\n    w.assign_sub(0.1 * w * x)\n    print('w', float(w))\n"
    )
    done = run("explain", "--picture", tmp_path / "steps.png", program, "--rounds", 6)
    assert done.exit_code == 0, done.output
    assert "steps: 2 traced, 10 coexecuted" in done.stdout, done.stdout
    assert "steps: ms per step" in done.stdout
    assert (tmp_path / "steps.png").stat().st_size > 1000
    program.write_text("import sys\nint(sys.argv[2])\n")
    done = run("explain", program, "--rounds", "many")
    assert done.exit_code == 1
    assert "ValueError: invalid literal" in done.output


@pytest.mark.parametrize(
    ("ending", "status"), [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("raise ValueError('late')", 1)]
)
def test_explain_tells_of_programs_that_do_not_run_to_their_end(ending: str, status: int, tmp_path: Path) -> None:
    """That is when one wants to know; the program's exit status stays its own."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nimport tensorflow as tf\nw = tf.Variable(2.0)\n\n\ndef step(x):\n"
        "    with tf.GradientTape() as tape:\n        loss = (w * x) ** 2\n"
        "    w.assign_sub(0.1 * tape.gradient(loss, w))\n    return loss\n\n\n"
        f"for i in range(6):\n    step(tf.constant(1.0))\n{ending}\n"
    )
    done = run("explain", program)
    assert done.exit_code == status
    assert "step: 3 eager, 2 graph, 0 fallback" in done.stdout
    screen = done.stdout[done.stdout.index("program.py took ") : done.stdout.index("In detail:")]
    assert re.search(r"step \(.*program.py:6\): \d+\.\d s, \d+% of it", screen)
    assert "Calls: 3 eagerly, 2 as one graph." in screen
    assert "Everything else: " in screen
    assert "Nothing kept a call from running as a graph." in screen
    done = run("explain", "--html", tmp_path / "page.html", program)
    assert done.exit_code == status
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<html") == page.count("</html>") == page.count("</body>") == 1
    assert '<meta charset="utf-8">' in page


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_of_all_benchmarks(option: str) -> None:
    done = run("bench", option)
    assert done.exit_code == 0
    assert "Run a benchmark" in done.output
    assert "sst" in done.output


ASKED_FOR = [
    ["--version"],
    ["--help"],
    *([*command.split("-"), "--help"] for command in [*COMMANDS, "bench"]),
    ["train", "--seed", "many"],
    ["unheard-of"],
]
WITHOUT = """
import sys
from recgraph_command import main
for arguments in ARGUMENTS:
    try:
        main(arguments)
    except SystemExit:
        pass
loaded = {"tensorflow", "keras", "recgraph", "numpy"} & set(sys.modules)
assert not loaded, loaded
"""


def test_what_needs_no_tensorflow_does_not_import_it() -> None:
    """Help, the version and mistakes in a command come at once."""
    program = WITHOUT.replace("ARGUMENTS", repr(ASKED_FOR))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: ") >= len(COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_does_not_import_tensorflow(shell: str) -> None:
    """Else each press of the key would take seconds."""
    words = {"COMP_WORDS": "recgraph train --mo", "COMP_CWORD": "--mo" if shell == "fish" else "2"}
    environment = {**os.environ, **words, "_RECGRAPH_COMPLETE": f"{shell}_complete"}
    program = WITHOUT.replace("main(arguments)", "main(arguments, prog_name='recgraph')").replace("ARGUMENTS", "[[]]")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--model" in done.stdout


def loud(*arguments: object, **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as a shell does, in an environment that says nothing about logs."""
    hidden = {"TF_CPP_MIN_LOG_LEVEL", "CUDA_VISIBLE_DEVICES"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | changes
    command = [sys.executable, "-c", "from recgraph_command import main; main()", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_tensorflow_logs_nothing_unless_the_user_wants_it(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nimport tensorflow as tf\nprint(tf.constant(1) + 1)\nprint('mine', file=sys.stderr)\n"
    )
    done = loud("evaluate", folder / "run", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    done = loud("explain", program)
    assert (done.returncode, done.stderr) == (0, "mine\n")
    done = loud("explain", program, TF_CPP_MIN_LOG_LEVEL="0")
    assert done.returncode == 0
    assert "oneDNN" in done.stderr or "InitializeLog" in done.stderr


def test_standard_output_on_a_full_disk(folder: Path) -> None:
    """One message, and none of Python's at its end."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    command = [sys.executable, "-c", "from recgraph_command import main; main()", "data", "stats", folder / "bank"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: standard output cannot be written: [Errno 28] No space left on device\n"
