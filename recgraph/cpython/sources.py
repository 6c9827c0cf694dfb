"""The text that code was compiled from, proven: compiled again it gives the same code.

Python keeps the names of files only. The text behind a name may have changed since, and all that is typed or executed
may share a name such as `<stdin>`. So a text is a guess until it has been compiled, and guesses may come from anywhere.
"""

from __future__ import annotations
import __future__

import ast
import collections
import contextlib
import functools
import importlib.machinery
import itertools
import linecache
import os
import re
import stat
import sys
import types
import zipimport
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from recgraph.cpython.parsing import parse

# What a text is compiled with beyond what it says itself: earlier inputs of a console may have said more.
_FUTURES: Final = functools.reduce(
    int.__or__, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)
)
# Whose modules are compiled from their texts as they stand. Others, such as pytest's, rewrite them.
_PLAIN_LOADERS: Final = (importlib.machinery.SourceFileLoader, zipimport.zipimporter, type(None), type)
# What a function's code consists of, its file and constants left out.
_PARTS: Final = (
    *("co_name", "co_qualname", "co_firstlineno", "co_flags", "co_code", "co_linetable", "co_exceptiontable"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount"),
    *("co_names", "co_varnames", "co_cellvars", "co_freevars"),
)
# How many frames above a module's the text may be that is executed there: consoles have some between.
_DEPTH: Final = 4
# How many lines that are not indented a function has at most that was typed.
_MOST_ENDS: Final = 8


class Text:
    """A text with its syntax tree.

    Args:
        source: the text.
        filename: what its code is named after.
        flags: the features of `__future__` that hold in it.

    Attributes:
        flags: as given.
        name: tells it from others of its filename.

    Raises:
        SyntaxError: it is no Python.
    """

    def __init__(self, source: str, filename: str, flags: int = 0) -> None:
        self.source, self.filename = source, filename
        self.name = f"{filename}#{zlib.crc32(source.encode(errors='replace')):x}"
        self.tree: ast.Module = parse(source, filename)
        self.flags = flags
        self._flags = flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # in cells

    def has(self, code: types.CodeType) -> bool:
        """Whether code was compiled from this text."""
        place, written = (code.co_name, code.co_firstlineno), _written(code)
        if code.co_filename != self.filename:
            return False
        return written in self._whole.get(place, ()) or written in self._by_statement.get(place, ())

    @functools.cached_property
    def _whole(self) -> dict[Any, set[object]]:
        """The code of its functions, by their names and lines."""
        return self._compiled([self.tree])

    @functools.cached_property
    def _by_statement(self) -> dict[Any, set[object]]:
        """Returns the same for statements compiled one by one, as consoles do: names are not known to be imported."""
        return self._compiled([ast.Module([statement], []) for statement in self.tree.body])

    def _compiled(self, parts: list[ast.Module]) -> dict[Any, set[object]]:
        found: dict[Any, set[object]] = collections.defaultdict(set)
        for part in parts:
            with contextlib.suppress(SyntaxError):  # what may be parsed may not be compiled
                for code in _inside(compile(part, self.filename, "exec", self._flags, dont_inherit=True)):
                    found[code.co_name, code.co_firstlineno].add(_written(code))
        return found


def text_of(code: types.CodeType, names: dict[str, Any]) -> Text:
    """The text that a function's code was compiled from.

    Args:
        code: of the function.
        names: its globals.

    Raises:
        LookupError: there is none, or it has changed; says so.
    """
    for text in [*_recent, *_guesses(code, names)]:
        if text.has(code):
            if text not in _recent:
                _recent.append(text)
            return text
    source = "".join(linecache.getlines(code.co_filename, names))
    if not source or code.co_filename.startswith("<"):
        raise LookupError(f"Python has not kept the source of {code.co_name}, which comes from {code.co_filename}")
    loader = getattr(names.get("__spec__"), "loader", None) or names.get("__loader__")
    rewritten = None if isinstance(loader, _PLAIN_LOADERS) else _parsed(source, code.co_filename, 0)
    if rewritten is None:
        raise LookupError(f"{code.co_filename} has changed since {code.co_name} was compiled")
    return rewritten


def why_not(function: Any) -> str:
    """Why there is no text of a function; "" if there is one."""
    try:
        text_of(function.__code__, function.__globals__)
    except LookupError as reason:
        return str(reason.args[0])
    return ""


def keep(function: Any) -> None:
    """Looks for the text of a function that is being defined: what is not in a file may soon be gone."""
    inner = getattr(function, "__func__", function)
    if isinstance(inner, types.FunctionType) and not os.path.exists(inner.__code__.co_filename):
        why_not(inner)


def findable(function: Any) -> Any:
    """The function, or a copy, whose text `inspect` and AutoGraph find.

    Raises:
        LookupError: as of `text_of`.
    """
    code = function.__code__
    text = _without_called_annotation(text_of(code, function.__globals__), code)
    if "".join(linecache.getlines(code.co_filename, function.__globals__)) == text.source:
        return function
    name = f"<{text.name.strip('<>')}>"
    linecache.cache[name] = (len(text.source), None, text.source.splitlines(True), name)
    _originals[name] = code.co_filename
    made = types.FunctionType(
        code.replace(co_filename=name), function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    made.__kwdefaults__, made.__qualname__, made.__module__ = (
        function.__kwdefaults__, function.__qualname__, function.__module__,
    )  # fmt: skip
    return made


def original(filename: str) -> str:
    """The file that code is from which `findable` has named otherwise; else the name itself."""
    return _originals.get(filename, filename)


def _without_called_annotation(text: Text, code: types.CodeType) -> Text:
    """The text without what a function is said to return, where that is a call: AutoGraph calls it in vain.

    All else stays in its line and column.
    """
    for node in ast.walk(text.tree):
        if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
            continue
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        if first == code.co_firstlineno and node.returns is not None:
            has_call = any(isinstance(part, ast.Call) for part in ast.walk(node.returns))
            return _blanked(text, node.returns) if has_call else text
    return text


def _blanked(text: Text, node: ast.expr) -> Text:
    """The text with `(0)` in place of an expression of at least three characters."""
    lines = text.source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    start, end = node.col_offset, node.end_col_offset or 0
    for i in range(first, last + 1):
        begin, stop = start if i == first else 0, end if i == last else len(lines[i].rstrip(b"\r\n"))
        lines[i] = lines[i][:begin] + b" " * (stop - begin) + lines[i][stop:]
    lines[first] = lines[first][:start] + b"(0" + lines[first][start + 2 :]
    lines[last] = lines[last][: end - 1] + b")" + lines[last][end:]
    return Text(b"".join(lines).decode(), text.filename, text.flags)


def told(text: str) -> str:
    """A message in which each `file:line` of a notebook's cell is named as IPython names it: `Cell In[3], line 2`."""
    for filename, number in _cells().items():
        if filename in text:
            text = re.sub(re.escape(filename) + r":(\d+)", rf"Cell In[{number}], line \1", text)
    return text


# The files of copies, by the names of their texts.
_originals: dict[str, str] = {}
# Those that code was found in last.
_recent: collections.deque[Text] = collections.deque(maxlen=64)


@functools.lru_cache(64)
def _parsed(source: str, filename: str, flags: int) -> Text | None:
    """A guess; None if it is no Python."""
    try:
        return Text(source, filename, flags)
    except (SyntaxError, ValueError):
        return None


def _guesses(code: types.CodeType, names: dict[str, Any]) -> Iterator[Text]:
    sources: list[Iterable[str]] = [_of_linecache(code, names)]
    if not os.path.exists(code.co_filename):
        sources += [_of_names(names), sys.orig_argv, _of_input(), _of_frames(code), _of_cells(), _typed(code)]
    word = "lambda" if code.co_name == "<lambda>" else code.co_name
    for source in itertools.chain.from_iterable(sources):
        if word in source and (text := _parsed(source, code.co_filename, code.co_flags & _FUTURES)) is not None:
            yield text


def _of_linecache(code: types.CodeType, names: dict[str, Any]) -> Iterator[str]:
    """What Python shows in tracebacks: files, archives, cells, doctests; read again where it has changed."""
    by_code = getattr(linecache, "_getlines_from_code", None)  # the console of Python 3.13
    yield "".join(by_code(code)) if by_code is not None else ""
    yield "".join(linecache.getlines(code.co_filename, names))
    linecache.checkcache(code.co_filename)
    yield "".join(linecache.getlines(code.co_filename, names))


def _of_names(names: dict[str, Any]) -> Iterator[str]:
    """What a program that executes text has told us."""
    source = names.get("__source__")
    if isinstance(source, str):
        yield source


def _of_input() -> Iterator[str]:
    """`python < file`."""
    try:
        status = os.fstat(0)
        if stat.S_ISREG(status.st_mode):
            yield os.pread(0, status.st_size, 0).decode()
    except (OSError, UnicodeDecodeError):
        pass


def _of_frames(code: types.CodeType) -> Iterator[str]:
    """What is being executed: whoever does it still has the text."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        executed = frame.f_code
        frame = frame.f_back
        if executed.co_name == "<module>" and executed.co_filename == code.co_filename:
            callers = itertools.islice(_outwards(frame), _DEPTH)
            yield from (s for f in callers for s in (*f.f_locals.values(), *f.f_code.co_consts) if isinstance(s, str))


def _outwards(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def shell() -> Any:
    """IPython's, if the program runs in one; whatever else has imported IPython or a kernel's modules."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def _cells() -> dict[str, int]:
    """The numbers of IPython's cells by the names of their files."""
    found = getattr(getattr(shell(), "compile", None), "_filename_map", None)
    return found if isinstance(found, dict) else {}


def _of_cells() -> Iterator[str]:
    """Cells that begin with a magic such as %%time: IPython executes the rest under another name."""
    found = shell()
    for source in reversed(getattr(getattr(found, "history_manager", None), "input_hist_raw", [])):
        if source.startswith("%%"):
            yield found.transform_cell(source.partition("\n")[2])


def _typed(code: types.CodeType) -> Iterator[str]:
    """What was typed at a prompt, by the history of `readline`: line by line, without lines that are empty.

    A statement ends before a line that is not indented; whether it is the right one shows when it is compiled.
    """
    readline: Any = sys.modules.get("readline")
    count = 0 if readline is None else readline.get_current_history_length()
    lines = [f"{readline.get_history_item(i + 1)}\n" for i in range(count)]
    head = re.compile(r".*\blambda\b" if code.co_name == "<lambda>" else rf"\s*def\s+{re.escape(code.co_name)}\b")
    for at in (i for i in reversed(range(count)) if head.match(lines[i])):
        decorators = len(list(itertools.takewhile(lambda i: lines[i].lstrip().startswith("@"), range(at - 1, -1, -1))))
        start = at - decorators - (code.co_firstlineno - 1)
        if start >= 0:
            ends = (end for end in range(at + 1, count + 1) if end == count or not lines[end][:1].isspace())
            yield from ("".join(lines[start:end]) for end in itertools.islice(ends, _MOST_ENDS))


def _written(code: types.CodeType) -> tuple[object, ...]:
    """What tells code from other code. Comparing it itself fails in Python 3.11 once it has run."""
    constants = (_written(c) if isinstance(c, types.CodeType) else _constant(c) for c in code.co_consts)
    return *(getattr(code, name) for name in _PARTS), *constants


def _constant(constant: object) -> object:
    return tuple(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    """All functions in code."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inside(constant)
