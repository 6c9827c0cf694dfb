"""A program becomes the same graphs wherever it is typed or executed: Python keeps no file of it there."""

from __future__ import annotations

import code
import contextlib
import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pexpect
import pytest

from tests.consoles.programs import PRINTED, STATEMENTS, printed

PROGRAM = "\n".join(STATEMENTS)
_ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONSTARTUP": "", "TERM": "dumb", "NO_COLOR": "1"}


def run(*arguments: str, **options: Any) -> str:
    """What a Python process prints."""
    process = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=_ENVIRONMENT, timeout=120, **options
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def typed(command: list[str], tmp_path: Path, pasted: bool = False, **environment: str) -> str:
    """What a console shows in which the program is typed, or pasted statement by statement."""
    home = {"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path)}
    child = pexpect.spawn(
        command[0], command[1:], env={**_ENVIRONMENT, **home, **environment}, encoding="utf-8", timeout=100, echo=False,
        dimensions=(50, 200),
    )  # fmt: skip
    shown = child.logfile_read = io.StringIO()
    child.expect([">>> ", r"In \[\d+\]: "])
    for statement in STATEMENTS:
        if pasted:
            child.send(f"\x1b[200~{statement}\x1b[201~\n")
        else:
            child.sendline(statement)
        if "\n" in statement:
            child.sendline("")
    child.expect(r"that is all")
    child.sendeof()
    child.close(force=True)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())


def test_from_a_file_that_is_the_input(tmp_path: Path) -> None:
    """`python < program.py`"""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    with file.open() as stream:
        assert printed(run("-", stdin=stream)) == PRINTED


def test_from_the_command_line() -> None:
    """`python -c program`"""
    assert printed(run("-c", PROGRAM)) == PRINTED


def test_of_texts_that_are_executed(tmp_path: Path) -> None:
    """Whoever executes a text has it in a variable, or gives it to the program."""
    ways = [
        "exec(text)",
        "exec(text, {})",
        "exec(compile(text, '<string>', 'exec'))",
        "exec(compile(text, 'made_up.py', 'exec'), {'__name__': 'elsewhere'})",
        "exec(open(sys.argv[1]).read(), {'__source__': text})",
    ]
    file, host = tmp_path / "program.txt", tmp_path / "host.py"
    file.write_text(PROGRAM)
    host.write_text("import sys\ntext = open(sys.argv[1]).read()\n" + "\n".join(ways) + "\n")
    assert printed(run(str(host), str(file))) == PRINTED * len(ways)


def test_at_the_prompt_of_python(tmp_path: Path) -> None:
    """The console that has no editor of its own: it keeps a history."""
    assert printed(typed([sys.executable, "-q"], tmp_path, PYTHON_BASIC_REPL="1")) == PRINTED


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the console with an editor came with Python 3.13")
def test_at_the_prompt_of_the_new_console(tmp_path: Path) -> None:
    """It names its inputs."""
    shown = typed([sys.executable, "-q"], tmp_path, pasted=True, TERM="xterm")
    assert [line for line in PRINTED if line not in shown] == []


def test_in_a_console_of_the_programs_own(tmp_path: Path) -> None:
    """`code.interact()` in a terminal."""
    assert printed(typed([sys.executable, "-c", "import code; code.interact(banner='')"], tmp_path)) == PRINTED


def test_in_ipython(tmp_path: Path) -> None:
    """In a terminal, with and without magic."""
    assert printed(typed([sys.executable, "-m", "IPython", "--no-banner", "--simple-prompt"], tmp_path)) == PRINTED


def test_in_a_console_without_a_terminal() -> None:
    """What is decorated is seen while it is executed; of the rest the reason is told."""
    console, output = code.InteractiveConsole(), io.StringIO()
    with contextlib.redirect_stdout(output):
        for statement in STATEMENTS[:-2]:
            for line in [*statement.splitlines(), ""]:
                console.push(line)
        console.push("print(next(iter(found.functions.values())).given_up)")
    assert printed(output.getvalue()) == PRINTED[:4]
    assert "Python has not kept the source of plain, which comes from <console>" in output.getvalue()


def test_in_a_pipe() -> None:
    """There is no source: everything runs, and the reason says what to do."""
    report = (
        "print(step.explain())\nwith rg.speculation(strict=True):\n    for i in range(6): plain(tf.constant(1.0))\n"
    )
    program = "\n".join(s for s in STATEMENTS if "factorial" not in s)
    process = subprocess.run(
        [sys.executable, "-"],
        input=f"{program}\n{report}",
        capture_output=True,
        text=True,
        env=_ENVIRONMENT,
        timeout=120,
    )
    assert "co-executed: True" in process.stdout
    assert "<stdin>:4: Python has not kept the source of step, which comes from <stdin>" in process.stdout
    assert "define the function in a file or a cell" in process.stderr, process.stderr


def test_in_a_doctest() -> None:
    """Its lines have sources as long as it runs."""
    examples = "".join(
        f">>> {first}\n" + "".join(f"... {line}\n" for line in rest)
        for first, *rest in (statement.splitlines() for statement in STATEMENTS if "print" not in statement[:5])
    )
    shown = (
        ">>> step.calls['graph'], int(factorial(tf.constant(4, tf.int64))), [*found.functions]\n(3, 24, ['plain'])\n"
    )
    program = f'"""Tested.\n\n{examples}{shown}"""\nimport doctest\nprint(doctest.testmod())\n'
    assert "failed=0" in run("-c", "import sys; exec(compile(sys.stdin.read(), 'tested.py', 'exec'))", input=program)


def test_in_an_archive(tmp_path: Path) -> None:
    """A module that was imported from a zip file."""
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("zipped.py", PROGRAM)
    text = run("-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'archive.zip')!r}); import zipped")
    assert printed(text) == PRINTED


def test_where_pytest_rewrites_assertions(tmp_path: Path) -> None:
    """The code of a test is not that of its source; it converts all the same."""
    file = tmp_path / "test_rewritten.py"
    file.write_text(
        "import tensorflow as tf\nimport recgraph as rg\n"
        "def test_it():\n    w = tf.Variable(3.0)\n    @rg.function(strict=True)\n    def step(x):\n"
        "        assert x > 0.0, 'never'\n        return w * x\n    for i in range(6): step(tf.constant(1.0))\n"
        "    assert step.calls['graph'] == 3\n"
    )
    assert "1 passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(file), cwd=tmp_path)


def book_of(*cells: str) -> Any:
    """A notebook whose cells were executed in a kernel of Jupyter's, with what its widgets show in the end."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", allow_errors=True).execute()
    return book


def executed(*cells: str) -> list[Any]:
    """The outputs of cells, for each cell as text."""
    return [cell.outputs for cell in book_of(*cells).cells]


def text_of(outputs: list[Any]) -> str:
    """What a cell has printed or raised."""
    texts = ["\n".join(o.traceback) if o.output_type == "error" else o.get("text", "") for o in outputs]
    return re.sub(r"\x1b\[[0-9;]*m", "", "".join(texts))


def test_in_a_notebook() -> None:
    """In one cell, in many cells, and under a magic: messages name cells as Jupyter does, and pictures show lines."""
    everything, *others = executed(
        PROGRAM,
        "%%time\n" + STATEMENTS[3].replace("def step", "def timed"),
        "for i in range(6): _ = timed(tf.constant(1.0))\nprint(timed.calls['graph'], timed.given_up)",
        "@rg.function(strict=True)\ndef strict(x):\n    import math\n    return x\n"
        "for i in range(6): strict(tf.constant(1.0))",
        "with rg.SubGraph('row', outputs=tf.TensorSpec([])) as row:\n    k = row.input(tf.int32)\n"
        "    row.output(tf.gather([1.0, 2.0], k))\nrow(5)",
        "step.explain()",
        "print(beside.explain())",
        "@rg.function\ndef loud(x):\n    tf.print('seen', x)\n    return x\nfor i in range(6): loud(i)",
    )
    assert printed(text_of(everything)) == PRINTED
    assert "3 " in text_of(others[1])
    assert "where:     Cell In[4], line 3" in text_of(others[2])
    assert "operation: row/GatherV2 (Cell In[5], line 3)" in text_of(others[3])
    (shown,) = others[4]
    page = shown.data["text/html"]
    assert "<td>Cell In[1], line 8</td><td><pre>    if loss &gt; 100.0:</pre></td>" in page
    assert "fetch: Pow (Cell In[1], line 17)" in text_of(others[5])
    assert text_of(others[6]) == "".join(f"seen {i}\n" for i in range(6))
    assert "ipykernel_" not in page + "".join(map(text_of, others))


@pytest.mark.slow
def test_a_progress_bar_in_a_notebook(tmp_path: Path) -> None:
    """It is drawn as the notebook's own output."""
    data, runs = tmp_path / "treebank", tmp_path / "run"
    train = (
        "from pathlib import Path\nfrom recgraph.train import console\nfrom recgraph.train.settings import Settings\n"
        f"console.train(Path({str(runs)!r}), Settings('tree_rnn', {str(data)!r}, epochs=1), True, False)"
    )
    run("-m", "recgraph.cli", "data", "generate", "--out", str(data), "--sizes", "20", "5", "5")
    book = book_of(train)
    shown = [book.metadata.get("widgets"), *(output.get("data") for output in book.cells[0].outputs)]
    assert "epoch 1" in str(shown), book  # a bar that is drawn last while the cell ends may be an output of the cell
