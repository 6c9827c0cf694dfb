"""Every benchmark runs end to end, with small settings, and leaves figures, a table and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from recgraph.cli import BENCHMARKS, main
from recgraph.data import generate_treebank, write_trees

ALONE = ["--contenders", "batched,iterative,limit"]
QUICK = ["--rounds", "1", "--seconds", "0.01"]


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a few trees."""
    path = tmp_path_factory.mktemp("trees") / "train.txt"
    write_trees(path, generate_treebank(30))
    return path


def run(name: str, out: Path, *options: object) -> tuple[Any, set[str]]:
    """Runs a benchmark: its results, and the files that it left; the table that it printed is one of them."""
    done = CliRunner().invoke(main, ["bench", name, *map(str, options), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert (out / f"{name}.md").read_text(encoding="utf-8") in done.output
    record = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
    assert record["benchmark"] == name
    assert record["machine"]["cores"] > 0
    return record["results"], {path.name for path in out.iterdir()}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_explains_itself(name: str) -> None:
    """`--help` goes to the benchmark, not to `bench`."""
    done = CliRunner().invoke(main, ["bench", name, "--help"])
    assert done.exit_code == 0
    assert f"bench {name}" in done.output
    assert "--out" in done.output


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


def test_machinery_counts_invocations(tmp_path: Path) -> None:
    """The library's own count is compared with what the recursions make."""
    results, _ = run("machinery", tmp_path, "--rows", 10, "--levels", 3, "--rounds", 1, "--threads", "1")
    assert {r["case"]: r["invocations"] for r in results} == {"chain": 40, "pair": 70, "gradient": 80}


@pytest.mark.slow
def test_build_tells_the_plan_from_the_whole(tmp_path: Path) -> None:
    """The plan is made for the batched engine only."""
    results, _ = run("build", tmp_path, "--rounds", 1, "--models", "tree_rnn")
    plans = {(r["phase"], r["engine"]): r["seconds"][0]["plan"] for r in results}
    assert plans["inference", "parallel"] == plans["gradient", "parallel"] == 0
    assert plans["inference", "batched"] > 0
    assert plans["gradient", "batched"] > 0
