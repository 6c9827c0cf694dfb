"""Trees in Penn Treebank form, `(3 (2 quite) (3 good))`: parse, print, read and write files, exchange with nltk.

`nltk.Tree.fromstring` reads the same form, but it stops at a depth of 500 and does not say where a line is wrong, so
the parser is our own and nltk's is the reference that the tests compare it with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NoReturn

from recgraph.data.files import DataFormatError, PathLike, atomic_file, read_lines
from recgraph.data.trees import NO_CHILD, NO_LABEL, Tree, TreeBuilder

if TYPE_CHECKING:
    import nltk

CLASSES = 5

# Only the ASCII space separates: words of the Stanford treebank contain U+00A0.
_PIECE = re.compile(
    r"\( *(?P<leaf>[^ ()]+) +(?P<word>[^ ()]+) *\)"  # a whole leaf
    r"|\( *(?P<node>[^ ()]*)"  # the beginning of an inner node
    r"|(?P<close>\))"
    r"|(?P<stray>[^ ()]+)"
)
_CONTROL = re.compile(r"[\t\r\n]")


class TreeFormatError(DataFormatError):
    """A line is not a tree in PTB form; see `DataFormatError` for the attributes."""


def parse_tree(text: str, *, classes: int = CLASSES, file: PathLike = "<string>", line: int = 1) -> Tree:
    """Parses one tree.

    Args:
        text: the tree, on one line, separated by ASCII spaces.
        classes: labels are 0 .. classes-1, or `?` for none.
        file: name of the source, for errors.
        line: number of the line, for errors.

    Raises:
        TreeFormatError: anything else than one binary tree, with file, line and column.

    Examples:
        >>> tree = parse_tree("(3 (2 quite) (3 good))")
        >>> tree.words, tree.labels
        (('quite', 'good', ''), (2, 3, 3))
    """
    return _Parser(text, classes, file, line).parse()


def parse_lines(lines: Iterable[str], *, classes: int = CLASSES, file: PathLike = "<string>") -> Iterator[Tree]:
    """Parses one tree per line, for instance of an open text file or of standard input.

    Args:
        lines: trees, one each.
        classes: labels are 0 .. classes-1, or `?` for none.
        file: name of the source, for errors.

    Yields:
        The trees, in the order of the lines.

    Raises:
        TreeFormatError: a line, an empty one included, that is not a tree.
    """
    for number, text in enumerate(lines, 1):
        yield parse_tree(text.rstrip("\r\n"), classes=classes, file=file, line=number)


def read_trees(path: PathLike, *, classes: int = CLASSES) -> list[Tree]:
    """Reads a UTF-8 file, plain or compressed (`.xz`, `.gz`, `.bz2`), with one tree per line.

    Args:
        path: of the file.
        classes: labels are 0 .. classes-1, or `?` for none.

    Returns:
        The trees, in the order of the lines.

    Raises:
        TreeFormatError: a line that is not a tree or not UTF-8.
        OSError: the file cannot be read.
    """
    lines = read_lines(path, TreeFormatError)
    return [parse_tree(text, classes=classes, file=path, line=number) for number, text in lines]


def write_trees(path: PathLike, trees: Iterable[Tree]) -> None:
    """Writes one tree per line, compressed where the name ends in `.xz`, `.gz` or `.bz2`; whole or not at all.

    Args:
        path: of the file.
        trees: in the order of the lines.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_file(path) as stream:
        for tree in trees:
            stream.write(f"{tree}\n".encode())


class _Parser:
    """The state of one parse: the open brackets and the finished subtrees inside the innermost of them."""

    def __init__(self, text: str, classes: int, file: PathLike, line: int):
        self.text, self.classes, self.file, self.line = text, classes, file, line
        self.builder = TreeBuilder()
        self.done: list[int] = []  # finished subtrees not yet inside a finished parent
        self.open: list[tuple[int, int, int]] = []  # label, place of the bracket, len(done) at the bracket

    def parse(self) -> Tree:
        if control := _CONTROL.search(self.text):
            self.fail(control.start(), "words separated by spaces, one tree per line", repr(control.group()))
        for piece in _PIECE.finditer(self.text):
            kind = piece.lastgroup
            if kind == "word":
                self.check_room(piece.start())
                label = self.label(piece["leaf"], piece.start("leaf"))
                self.done.append(self.builder.leaf(piece["word"], label))
            elif kind == "node":
                self.check_room(piece.start())
                label = self.label(piece["node"], piece.start("node"))
                self.open.append((label, piece.start(), len(self.done)))
            elif kind == "close":
                self.close(piece.start())
            else:
                self.stray(piece)
        self.finish()
        return self.builder.build()

    def fail(self, place: int, expected: str, found: str) -> NoReturn:
        raise TreeFormatError(self.file, self.line, place + 1, expected, found)

    def label(self, text: str, place: int) -> int:
        if len(text) == 1 and "0" <= text < str(min(self.classes, 10)):  # the common case, fast
            return int(text)
        if text == "?":
            return NO_LABEL
        if re.fullmatch("[1-9][0-9]{1,5}", text, re.ASCII) and int(text) < self.classes:
            return int(text)
        self.fail(place, f"a label 0..{self.classes - 1} (or ?) after '('", repr(text) if text else self.at(place))

    def at(self, place: int) -> str:
        """What stands at a place, in words."""
        rest = self.text[place:].lstrip(" ")
        return repr(rest[0]) if rest else "the end of the line"

    def children(self) -> int:
        return len(self.done) - (self.open[-1][2] if self.open else 0)

    def check_room(self, place: int) -> None:
        """Refuses a further subtree where there is no room for one."""
        if not self.open and self.done:
            self.fail(place, "the end of the line after the tree", "'('")
        if self.open and self.children() == 2:
            self.fail(place, "')' after two children (trees are binary)", "a third child")

    def close(self, place: int) -> None:
        if not self.open:
            self.fail(place, "the end of the line after the tree" if self.done else "'('", "')'")
        if (count := self.children()) != 2:
            expected = "a word or two children" if count == 0 else "a second child (trees are binary)"
            self.fail(place, expected, "')'")
        label = self.open.pop()[0]
        right, left = self.done.pop(), self.done.pop()
        self.done.append(self.builder.node(left, right, label))

    def stray(self, piece: re.Match[str]) -> NoReturn:
        """Refuses a word that no bracket of its own holds."""
        word, place = piece.group(), piece.start()
        if not self.open:
            self.fail(place, "the end of the line after the tree" if self.done else "'('", repr(word))
        if self.children() == 0:
            end = piece.end() + len(self.text[piece.end() :]) - len(self.text[piece.end() :].lstrip(" "))
            self.fail(end, f"')' after the word {word!r}", self.at(end))
        self.fail(place, "a child in brackets" if self.children() == 1 else "')' after two children", repr(word))

    def finish(self) -> None:
        end = len(self.text)
        if self.open:
            first, count = self.open[-1][1] + 1, len(self.open)
            self.fail(end, f"')' for the '(' in column {first} ({count} open)", "the end of the line")
        if not self.done:
            self.fail(0, "a tree", "an empty line")


def to_nltk(tree: Tree) -> nltk.Tree:
    """Converts a tree to one of nltk: labels become strings, words its leaves."""
    from nltk.tree import Tree as NltkTree

    built: list[NltkTree] = []
    for word, left, right, label in zip(tree.words, tree.left, tree.right, tree.labels, strict=True):
        children = [word] if left == NO_CHILD else [built[left], built[right]]
        built.append(NltkTree("?" if label == NO_LABEL else str(label), children))
    return built[-1]


def from_nltk(tree: nltk.Tree, *, classes: int = CLASSES) -> Tree:
    """Converts a tree of nltk.

    Args:
        tree: its words are leaves and its labels strings, as `to_nltk` gives them.
        classes: labels are 0 .. classes-1, or `?` for none.

    Returns:
        The same tree.

    Raises:
        TreeFormatError: a node that is not binary, a label out of range; line and column are those of `str(result)`
            as it would have been printed on one line.
    """
    pieces: list[str] = []
    todo: list[object] = [tree]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        pieces.append(f"({item.label()}")  # type: ignore[attr-defined]
        todo.append(")")
        for child in reversed(list(item)):  # type: ignore[call-overload]
            todo += [child, " "]
    return parse_tree("".join(pieces), classes=classes, file="<nltk tree>")
