"""Every benchmark runs end to end, with small settings, and leaves figures, a table and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from recgraph.benchmarks import programs
from recgraph.benchmarks.ablation import STAGES
from recgraph.benchmarks.coexec import overlap
from recgraph.benchmarks.coexec_ways import LABELS
from recgraph.benchmarks.measure import Series
from recgraph.data import generate_treebank, write_trees
from recgraph.models.zoo import ZOO
from recgraph_command import BENCHMARKS, main

ALONE = ["--contenders", "batched,iterative,limit"]
QUICK = ["--rounds", "1", "--seconds", "0.01"]


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a few trees."""
    path = tmp_path_factory.mktemp("trees") / "train.txt"
    write_trees(path, generate_treebank(60))
    return path


def run(name: str, out: Path, *options: object, leaves: str = "") -> tuple[Any, set[str]]:
    """Runs a benchmark: its results, and the files that it left; the table that it printed is one of them."""
    done = CliRunner().invoke(main, ["bench", name, *map(str, options), "--out", str(out)])
    assert done.exit_code == 0, done.output
    leaves = leaves or name
    assert (out / f"{leaves}.md").read_text(encoding="utf-8") in done.output
    record = json.loads((out / f"{leaves}.json").read_text(encoding="utf-8"))
    assert record["benchmark"] == leaves
    assert record["machine"]["cores"] > 0
    return record["results"], {path.name for path in out.iterdir()}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_explains_itself(name: str) -> None:
    """`--help` goes to the benchmark, not to `bench`."""
    done = CliRunner().invoke(main, ["bench", name, "--help"])
    assert done.exit_code == 0
    assert f"bench {name}" in done.output
    assert "--out" in done.output


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (["--models", "tree_lstm,TreeRNN"], "'TreeRNN' is not one of"),
        (["--batch-sizes", "1,0"], "0 is not in the range x>=1"),
        (["--phases", "training"], "'training' is not one of 'train', 'infer'"),
        (["--contenders", "batched,chainer"], "'chainer' is not one of"),
    ],
)
def test_a_part_of_a_list_that_does_not_exist_is_named(option: list[str], text: str) -> None:
    """Before anything is measured."""
    done = CliRunner().invoke(main, ["bench", "sst", *option])
    assert done.exit_code == 2
    assert text in done.output


def test_substitutions_are_measured_where_the_losses_agree(tmp_path: Path) -> None:
    """The cell as printed, with and without substitutions, beside the one that was merged by hand."""
    options = ["--cells", "lstm", "--engines", "parallel", "--batch-sizes", "1", "--phases", "infer"]
    results, _ = run("substitution", tmp_path, *options, "--rounds", 1, "--seconds", 0.01)
    assert [set(result["series"]) for result in results] == [{"fused", "printed", "rewritten"}]


def test_training_with_substitutions_is_measured_where_the_losses_agree(tmp_path: Path) -> None:
    """The step of a program in the default mode, and what became of its graph."""
    results, _ = run("rewriting", tmp_path, "--programs", "a3c", "--small", "--rounds", 1, "--warm-up", 20)
    (result,) = results
    assert result["fault"] == ""
    assert set(result["series"]) == {"without", "with"}
    assert result["substitutions"]  # what was looked for now, or measured on this machine before


@pytest.mark.slow
@pytest.mark.long
def test_networks_are_measured_where_the_results_agree(tmp_path: Path) -> None:
    """TensorFlow alone, XLA, and each search that can run, with what it did."""
    results, _ = run("networks", tmp_path, "--networks", "nasrnn", "--rounds", 1, "--seconds", 0.01, "--search", 8)
    assert [set(result["series"]) for result in results] == [{"tensorflow", "xla", *results[0]["searches"]}]
    assert "matmul 80 -> " in results[0]["searches"]["backtracking"]["lines"][0]


def test_throughput_of_every_model_phase_and_size(trees: Path, tmp_path: Path) -> None:
    """One entry for each, with a speed for each contender."""
    options = ["--models", "tree_rnn", "--batch-sizes", "1,8", *ALONE, *QUICK]
    results, files = run("sst", tmp_path, "--trees", trees, *options)
    assert [(r["model"], r["phase"], r["batch_size"]) for r in results] == [
        ("tree_rnn", phase, size) for phase in ("train", "infer") for size in (1, 8)
    ]
    assert all(set(r["series"]) == {"batched", "iterative", "limit"} for r in results)
    assert files == {"sst.json", "sst.md", "sst.png"}


def test_contenders_whose_library_is_missing_are_left_out(
    trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is said, whatever else is compared."""
    monkeypatch.delenv("RECGRAPH_DGL_PYTHON", raising=False)
    options = ["--models", "tree_rnn", "--batch-sizes", "2", "--phases", "infer", *QUICK]
    done = CliRunner().invoke(
        main, ["bench", "sst", "--trees", str(trees), *options, "--contenders", "iterative,dgl", "--out", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    assert "dgl is left out: --dgl-python names no interpreter for it" in done.output


@pytest.mark.long
def test_balance_measures_shapes_and_depths(trees: Path, tmp_path: Path) -> None:
    """The same sentences in three shapes; balanced trees of 1, 3, 7, 15 nodes."""
    options = ["--trees", trees, "--batch-sizes", 4, "--phases", "infer", "--count", 10, "--depth", 3, *QUICK]
    results, files = run("balance", tmp_path, *options)
    assert [r["shape"] for r in results["shapes"]] == ["balanced", "moderate", "linear"]
    assert results["depths"][0]["nodes"] == [1, 3, 7, 15]
    assert {"balance-shapes.png", "balance-depths.png"} <= files


def test_machinery_compares_calls_with_those_of_tensorflow(tmp_path: Path) -> None:
    """Eager and in a graph, with and without a gradient, by both engines; and times of invocations and blocks."""
    options = ["--rounds", 2, "--calls", 2, "--depth", 2, "--trees", 2, "-n", 4]
    results, files = run("machinery", tmp_path, *options)
    assert len(results["calls"]) == 2 * 2 * 2 * 3
    assert all(min(*r["us"], *r["tensorflow_us"]) > 0.0 for r in results["calls"])
    assert len(results["invocations"]) == 2 * 3
    assert all(min(r["us"]) > 0.0 for r in results["invocations"])
    assert len(results["blocks"]["us"]) == 2
    assert files == {"machinery.json", "machinery.md"}


def test_levels_are_measured_beside_the_batched_engine(tmp_path: Path) -> None:
    """Training and inference, with processor time and ratios."""
    options = ["--batches", "2,3", "--count", 1, "--rounds", 1, "--hidden", 3, "--embedding", 4]
    results, files = run("levels", tmp_path, *options)
    assert [(one["what"], one["batch"]) for one in results] == [
        (what, batch) for batch in (2, 3) for what in ("training", "inference")
    ]
    for one in results:
        assert list(one["contenders"]) == ["batched", "levels"]
        assert all(found["cpu_ms"] > 0 and found["ratio"] > 0 for found in one["contenders"].values())
    assert files == {"levels.json", "levels.md"}


def test_recursions_and_loops_over_tables_agree(tmp_path: Path) -> None:
    """Or it would not get that far."""
    results, _ = run("dynamic_programming", tmp_path, "--sizes", "10", "--rounds", 1)
    assert [(r["task"], set(r["series"])) for r in results] == [
        ("soft-DTW", {"recursion", "diagonals", "cells"}),
        ("soft-DTW and gradient", {"recursion", "diagonals", "cells"}),
        ("edit distance", {"recursion", "diagonals"}),
        ("CTC and gradient", {"recursion", "ctc_loss"}),
    ]


@pytest.mark.slow
def test_a_sweep_gives_the_same_losses_by_every_way(tmp_path: Path) -> None:
    """For a model of variables and one of Keras's."""
    results, files = run("sweep", tmp_path, "--steps", 6, "--count", 2, "--rounds", 1)
    assert [(one["model"], one["models"], one["steps"]) for one in results] == [("variables", 2, 6), ("keras", 2, 6)]
    for one in results:
        assert list(one["seconds"]) == ["eager", "tf.function", "rg.function", "rg.speculation"]
        assert all(min(seconds) > 0 for seconds in one["seconds"].values())
        np.testing.assert_allclose(list(one["losses"].values()), one["losses"]["eager"], rtol=1e-4)
    assert files == {"sweep.json", "sweep.md"}


@pytest.mark.slow
@pytest.mark.long
def test_generation_compares_engines_and_the_loop(tmp_path: Path) -> None:
    """All make the same trees, or it would not get that far."""
    options = ["--rounds", 1, "--trees", 4, "--hidden", 16, "--batch-sizes", "4"]
    results, files = run("generation", tmp_path, *options)
    assert [(r["phase"], r["batch_size"]) for r in results] == [
        (phase, size) for phase in ("generation", "completion", "training") for size in (4,)
    ]
    assert all(set(r["series"]) == {"batched", "parallel", "iterative"} for r in results)
    assert "generation.png" in files


def test_speculation_is_compared_where_the_losses_are_right(tmp_path: Path) -> None:
    """`tf.function` keeps the first states of the LSTM, or fails at them; that is said."""
    options = ["--small", "--programs", "lstm", "--rounds", 1]
    results, _ = run("speculate", tmp_path, *options)
    (result,) = results["programs"]
    assert {"eager", "speculated", "by_hand"} <= set(result["series"])
    assert "tf_function" in result["faults"]
    assert results["guards"]["guards"] >= 18
    assert "LSTM by tf.function" in (tmp_path / "speculate.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_fit_is_compared_where_histories_are_right(tmp_path: Path) -> None:
    """Keras's own graph refuses Python in a step; that is said."""
    results, files = run("keras", tmp_path, "--programs", "perceptron,imperative", "--sizes", 1, "--rounds", 1)
    assert [set(result["series"]) for result in results] == [{"converted", "plain", "eager"}, {"converted", "eager"}]
    assert set(results[1]["faults"]) == {"plain"}
    assert all(result["way"] == "graph" for result in results)
    assert "imperative, fit: Operator" in (tmp_path / "keras.md").read_text(encoding="utf-8")
    assert "keras.png" in files


@pytest.mark.slow
@pytest.mark.long
def test_the_programs_of_the_eager_paper_are_compared_at_each_batch_size(tmp_path: Path) -> None:
    """All four ways have the losses of eager execution, also where chains go on from step to step."""
    options = ["--small", "--batch-sizes", "2,3", "--samples", 4, "--rounds", 1]
    results, files = run("eager", tmp_path, *options)
    assert [(r["program"], r["batch_size"]) for r in results] == [("resnet50", 2), ("resnet50", 3), ("l2hmc", 4)]
    assert all(set(r["series"]) == {"eager", "staged", "graph", "rg_function"} and not r["faults"] for r in results)
    assert files == {"eager.json", "eager.md", "eager.png"}


@pytest.mark.slow
@pytest.mark.long
def test_coexecution_is_compared_where_the_losses_are_right(tmp_path: Path) -> None:
    """`tf.function` keeps the first point that was drawn; that is said, and how the co-executed steps went."""
    ways = set(LABELS) - {"serialised", "ceiling"}
    options = ["--small", "--programs", "sdpoint", "--rounds", 1, "--warm-up", 12]
    results, files = run("coexec", tmp_path, *options, "--ways", ",".join(ways))
    (result,) = results
    wrong = {"tf_function"}
    assert set(result["faults"]) == wrong
    assert set(result["series"]) == set(result["first_steps"]) == ways - wrong
    assert result["auto"] is not None
    assert result["overlap"] is None
    assert {"coexec-speeds.png", "coexec-runners.png"} <= files
    course = result["phases"]
    assert sum(course["counts"].values()) == course["steps"]
    assert course["counts"]["coexecuted"] > 0
    assert course["changes"] > 0
    assert min(busy for busy, _ in course["runners"].values()) > 0.0
    text = (tmp_path / "coexec.md").read_text(encoding="utf-8")
    assert "SDPoint, 4 (small), tf.function: the loss of step" in text


@pytest.mark.slow
@pytest.mark.long
def test_co_execution_stands_between_its_bounds(tmp_path: Path) -> None:
    """Python and the graph one after the other, and Python alone."""
    options = ["--small", "--programs", "dcgan", "--rounds", 1, "--warm-up", 6]
    results, _ = run("coexec", tmp_path, *options, "--ways", "serialised,ceiling")
    (result,) = results
    assert set(result["series"]) == {"eager", "coexecuted", "serialised", "ceiling"}
    assert result["overlap"]["python"] > 0.0
    assert "hidden of the shorter" in (tmp_path / "coexec.md").read_text(encoding="utf-8")


def test_what_is_hidden_of_the_shorter_time() -> None:
    """3 ms of Python and 5 ms of the graph: of the 3, one is hidden in a step of 7 ms."""
    seconds = {"ceiling": 3e-3, "serialised": 8e-3, "coexecuted": 7e-3}
    rounds = (1.0, 1.02, 2.0, 0.98, 1.0, 1.01)  # the machine is half as fast in one of them
    found = overlap({kind: Series(tuple(1.0 / (time * slow) for slow in rounds)) for kind, time in seconds.items()})
    assert found is not None
    assert found["python"] == pytest.approx(3e-3, rel=0.02)
    assert found["graph"] == pytest.approx(5e-3, rel=0.02)
    assert found["hidden"] == pytest.approx(1 / 3, rel=0.02)
    assert 0.0 < found["uncertain"] < 0.05


def test_nothing_is_said_of_what_is_hidden_where_the_rounds_differ_by_more_than_the_graph_takes() -> None:
    series = {
        "ceiling": Series((100.0, 110.0, 90.0)),
        "serialised": Series((95.0, 105.0, 85.0)),
        "coexecuted": Series((120.0, 80.0, 90.0)),
    }
    found = overlap(series)
    assert found is not None
    assert found["hidden"] is None
    assert found["graph"] == pytest.approx(1 / 95 - 1 / 100)
    one = {kind: Series(each.speeds[:1]) for kind, each in series.items()}
    assert overlap(one) is not None


@pytest.mark.slow
@pytest.mark.long
def test_optimisations_of_the_converter_are_measured_one_after_the_other(tmp_path: Path) -> None:
    """Each stage in a process of its own; all take the same steps to the same losses."""
    options = ["--small", "--programs", "tree_rnn", "--rounds", 1, "--warm-up", 5, "--ablation"]
    results, _ = run("speculate", tmp_path, *options, leaves="speculate-ablation")
    (result,) = results
    assert list(result["series"]) == list(result["told"]) == list(STAGES)
    for stage, told in result["told"].items():
        assert np.allclose(told["losses"], result["told"]["eager"]["losses"], 1e-3), stage
        assert (told["calls"].get("graph", 0) > 0) is (stage != "eager")


def test_what_is_not_ready_in_time_is_left_out() -> None:
    """`tf.function` may make graphs of a recursion for ever; the limit has a name, and is said."""

    def endless(made: Any) -> Any:
        def step(trees: Any) -> Any:
            while True:
                pass

        return step

    epoch = programs.epoch_of("tree_rnn", 2, True, None)
    contender = programs.Contender(ZOO["tree_rnn"], endless, epoch, True)
    assert contender.warm_up(3, 0.2) == "it has taken 0 of 3 steps after 0.2 s (MAX_WARM_UP)"
    eager = programs.Contender(ZOO["tree_rnn"], lambda made: made.train_step, epoch, True)
    assert eager.warm_up(3) == ""


@pytest.mark.slow
def test_a_server_under_load_is_measured(tmp_path: Path) -> None:
    """With batches of requests and without; answers are those to requests that came alone."""
    options = ["--clients", 4, "--seconds", 0.5, "--minutes", 0.01, "--sentences", 8, "--hidden", 8]
    results, files = run("serving", tmp_path, *options)
    assert [(one["way"], one["wrong"]) for one in results] == [("batched", 0), ("alone", 0)]
    assert all(one["requests"] > 0 and one["p50"] <= one["p99"] and one["megabytes"] > 100 for one in results)
    assert files == {"serving.json", "serving.md"}
