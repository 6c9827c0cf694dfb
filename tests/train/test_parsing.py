"""A parser is trained as any model is, and puts trees over plain text and over reviews."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf
from click.testing import CliRunner

from recgraph.data import TreeBatch, Vocabulary, brackets, encode, linear, moderate, parse_tree
from recgraph.models.parser import true_spans
from recgraph.train import metrics
from recgraph.train.run import Run, load, prepare
from recgraph.train.settings import Settings
from recgraph.train.trainer import Trainer
from recgraph_command import main


@pytest.fixture(scope="module")
def parser(treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("parser")
    hyper = {"embedding": 8, "hidden": 8, "span": 8, "batch_size": 10}
    trained = Trainer(prepare(folder, Settings("parser", str(treebank), task="parsing", epochs=1, hyper=hyper)))
    (record,) = trained.fit(lambda sums: None, lambda record: None)
    assert 0 <= record["dev"]["f1"] <= 1
    assert 0 <= record["cuts"] <= 1
    return folder


def parse(*arguments: object, text: str = "") -> list[str]:
    """What the command prints."""
    done = CliRunner().invoke(main, ["data", "parse", *map(str, arguments)], input=text)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_plain_text_gets_a_tree_a_sentence(parser: Path) -> None:
    """Two sentences in a line, an empty line, and a sentence that is too long."""
    lines = parse(
        "--parser", parser, "--max-words", 6, text="The film is good. It is not.\n\nNo one two three four five.\n"
    )
    trees = [parse_tree(line) for line in lines]
    assert [" ".join(tree.tokens) for tree in trees] == ["The film is good .", "It is not ."]
    assert set(trees[0].labels) == {-1}


def test_a_classifier_labels_every_node(parser: Path, trained: Run) -> None:
    """As `predict` would."""
    (line,) = parse("--parser", parser, "--model", trained.folder, text="The film is good.")
    assert all(0 <= label < 5 for label in parse_tree(line).labels)


def test_reviews_are_parsed_into_a_file(parser: Path, tmp_path: Path) -> None:
    """In the form of the treebank, with the sentiment of the review at the root."""
    (tmp_path / "train.tsv").write_text("neg\t0\t2\tBad film. Very bad.\npos\t0\t9\tGood.\n", encoding="utf-8")
    out = tmp_path / "trees.txt"
    (said,) = parse("--parser", parser, "--reviews", "train", "--data", tmp_path, "--limit", 1, "--out", out)
    assert said == f"2 trees in {out}"
    assert [parse_tree(line).label for line in out.read_text().splitlines()] == [0, 0]


def test_a_run_that_does_not_parse_is_refused(trained: Run, parser: Path) -> None:
    """And one that does not classify."""
    done = CliRunner().invoke(main, ["data", "parse", "--parser", str(trained.folder)], input="a b")
    assert "this run does not parse sentences" in done.output
    done = CliRunner().invoke(main, ["data", "parse", "--parser", str(parser), "--model", str(parser)], input="a b")
    assert "this run does not classify sentences" in done.output
    assert load(parser).settings.task == "parsing"


def test_brackets_are_counted_as_sets_are() -> None:
    """Words and whole sentences do not count."""
    words = [[f"w{n}" for n in range(count)] for count in (1, 2, 5, 9)]
    vocabulary = Vocabulary(("<unk>",))
    trees, others = [moderate(sentence, 3) for sentence in words], [linear(sentence) for sentence in words]
    spans = [true_spans(TreeBatch(*map(tf.constant, encode(some, vocabulary)))) for some in (others, trees)]
    right = sum(len(brackets(a) & brackets(b)) for a, b in zip(trees, others, strict=True))
    assert metrics.count_brackets(*spans).numpy().tolist() == [right, 3 + 7]
