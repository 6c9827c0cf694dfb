"""The PTB form: errors that point at the place, files, and agreement with nltk."""

import lzma
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree as NltkTree

from recgraph.data import (
    TreeFormatError,
    from_nltk,
    generate_treebank,
    parse_lines,
    parse_tree,
    read_trees,
    to_nltk,
    write_trees,
)

MALFORMED = [
    ("", 1, "a tree", "an empty line"),
    ("   ", 1, "a tree", "an empty line"),
    ("()", 2, "a label 0..4 (or ?) after '('", "')'"),
    ("(2)", 3, "a word or two children", "')'"),
    ("(2 )", 4, "a word or two children", "')'"),
    ("(2 a b)", 6, "')' after the word 'a'", "'b'"),
    ("(2 a (2 b))", 6, "')' after the word 'a'", "'('"),
    ("(2 a", 5, "')' after the word 'a'", "the end of the line"),
    ("(2 (2 a)", 9, "')' for the '(' in column 1 (1 open)", "the end of the line"),
    ("(2 (2 a))", 9, "a second child (trees are binary)", "')'"),
    ("(2 (2 a) (2 b) (2 c))", 16, "')' after two children (trees are binary)", "a third child"),
    ("(2 (2 a) b)", 10, "a child in brackets", "'b'"),
    ("(2 (2 a) (2 b) c)", 16, "')' after two children", "'c'"),
    ("(5 a)", 2, "a label 0..4 (or ?) after '('", "'5'"),
    ("(-1 a)", 2, "a label 0..4 (or ?) after '('", "'-1'"),
    ("(02 a)", 2, "a label 0..4 (or ?) after '('", "'02'"),
    ("(\u00b2 a)", 2, "a label 0..4 (or ?) after '('", "'\u00b2'"),
    ("(3 (2 a) (x b))", 11, "a label 0..4 (or ?) after '('", "'x'"),
    ("((2 a) (2 b))", 2, "a label 0..4 (or ?) after '('", "'('"),
    ("good film", 1, "'('", "'good'"),
    (")", 1, "'('", "')'"),
    ("(2 a))", 6, "the end of the line after the tree", "')'"),
    ("(2 a) (2 b)", 7, "the end of the line after the tree", "'('"),
    ("(2 a) b", 7, "the end of the line after the tree", "'b'"),
    ("(2 a\tb)", 5, "words separated by spaces, one tree per line", "'\\t'"),
]


@pytest.mark.parametrize(("text", "column", "expected", "found"), MALFORMED)
def test_a_malformed_line_says_where_and_what(text, column, expected, found):
    with pytest.raises(TreeFormatError) as caught:
        parse_tree(text, file="bad.txt", line=7)
    assert str(caught.value) == f"bad.txt:7:{column}: expected {expected}, found {found}"
    assert (caught.value.file, caught.value.line, caught.value.column) == ("bad.txt", 7, column)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@given(st.text("( )012?a", max_size=25))
def test_any_text_is_a_tree_or_a_format_error(text):
    try:
        tree = parse_tree(text)
    except TreeFormatError as error:
        column = error.column
    else:
        assert parse_tree(str(tree)) == tree
        column = 1
    assert 1 <= column <= len(text) + 1


def test_more_classes_can_be_asked_for():
    assert parse_tree("(11 a)", classes=12).label == 11
    with pytest.raises(TreeFormatError, match=r"a label 0\.\.11"):
        parse_tree("(12 a)", classes=12)


def test_a_word_with_a_no_break_space_is_one_word():
    assert parse_tree("(2 (2 8\u00a01\\/2) (2 a\u0085b))").tokens == ("8\u00a01\\/2", "a\u0085b")


def test_extra_spaces_do_no_harm():
    assert str(parse_tree(" ( 2  (2   a)(2 b )  ) ")) == "(2 (2 a) (2 b))"


@pytest.mark.parametrize("name", ["trees.txt", "trees.txt.xz"])
def test_a_file_is_read_whatever_its_line_ends(tmp_path, name):
    data = b"\xef\xbb\xbf(2 a)\r\n(3 (2 b) (2 \xc3\xa9))"
    (tmp_path / name).write_bytes(lzma.compress(data) if name.endswith("xz") else data)
    assert [str(tree) for tree in read_trees(tmp_path / name)] == ["(2 a)", "(3 (2 b) (2 é))"]


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        (b"(2 a)\n\n(2 b)\n", "2:1", "expected a tree, found an empty line"),
        (b"(2 a)\n(2 b\n", "2:5", "expected ')' after the word 'b', found the end of the line"),
        (b"(2 \xc3\xa9)\n(2 \xc3\xa9\xff)\n", "2:5", "expected UTF-8 text, found the byte 0xff"),
    ],
)
def test_a_broken_file_is_named_with_line_and_column(tmp_path, data, place, message):
    path = tmp_path / "broken.txt"
    path.write_bytes(data)
    with pytest.raises(TreeFormatError) as caught:
        read_trees(path)
    assert str(caught.value) == f"{path}:{place}: {message}"


def test_a_cut_off_xz_file_is_named(tmp_path):
    path = tmp_path / "cut.txt.xz"
    path.write_bytes(lzma.compress(b"(2 a)\n" * 1000)[:-40])
    with pytest.raises(TreeFormatError, match=r"cut\.txt\.xz:\d+:1: expected xz data, found a damaged or cut-off file"):
        read_trees(path)


def test_an_empty_file_holds_no_trees(tmp_path):
    (tmp_path / "empty.txt").touch()
    assert read_trees(tmp_path / "empty.txt") == []


def test_lines_of_standard_input_are_parsed_as_they_come():
    trees = parse_lines(iter(["(2 a)\n", "(2\n"]), file="<stdin>")
    assert str(next(trees)) == "(2 a)"
    with pytest.raises(TreeFormatError, match="<stdin>:2:3: expected"):
        next(trees)


def test_writing_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "trees.txt"
    write_trees(path, [parse_tree("(2 a)")])

    def failing():
        yield parse_tree("(2 b)")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_trees(path, failing())
    assert path.read_text() == "(2 a)\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["trees.txt"]


def test_nltk_reads_what_we_print_and_we_read_what_nltk_prints():
    for tree in generate_treebank(50, seed=3):
        theirs = NltkTree.fromstring(str(tree), node_pattern="[^ ()]+", leaf_pattern="[^ ()]+")
        assert to_nltk(tree) == theirs
        assert from_nltk(theirs) == tree
        assert str(tree) == theirs.pformat(margin=10**9)


def test_an_nltk_tree_that_is_not_binary_is_refused():
    with pytest.raises(TreeFormatError, match="<nltk tree>:1:16: .* found a third child"):
        from_nltk(NltkTree.fromstring("(2 (2 a) (2 b) (2 c))"))
