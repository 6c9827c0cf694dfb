"""The example of one's own records: it learns, and its answers are those of the records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def example(load: Callable[[str], Any]) -> Any:
    return load("own_trees")


def test_it_learns_to_compute_expressions(example: Any) -> None:
    found = example.main(records=1000, epochs=20)
    assert found["error"] < found["error of the mean"] / 3


def test_the_answers_are_those_of_python(example: Any, tmp_path: Path) -> None:
    example.write_records(tmp_path / "some.jsonl", 50, seed=3)
    records = [json.loads(line) for line in (tmp_path / "some.jsonl").read_text(encoding="utf-8").splitlines()]

    def text(item: Any) -> str:
        if "value" in item:
            return str(item["value"])
        return f"{item['op']}([{', '.join(map(text, item['of']))}])"

    assert len(records) == 50
    assert all(abs(eval(text(record)) - record["answer"]) < 1e-9 for record in records)
