"""The examples in the README and in the docstrings of the data room run."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "data" / "README.md"


def test_the_readme_example_runs(capsys):
    for code in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL):
        exec(compile(code, str(README), "exec"), {})
    assert "(" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["trees", "vocabulary"])
def test_the_docstring_examples_run(name):
    result = doctest.testmod(importlib.import_module(f"recgraph.data.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
