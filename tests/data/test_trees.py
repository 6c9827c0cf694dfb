"""What a `Tree` refuses and what it prints."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recgraph.data import Tree, TreeBuilder, linear, moderate, parse_tree

WORDS = st.text(st.characters(exclude_characters=" ()\t\r\n", exclude_categories=["Cs"]), min_size=1, max_size=6)


@st.composite
def labelled_trees(draw) -> Tree:
    tree = moderate(draw(st.lists(WORDS, min_size=1, max_size=30)), draw(st.integers(0, 2**32)))
    return tree.with_labels(draw(st.lists(st.integers(-1, 4), min_size=len(tree), max_size=len(tree))))


@given(labelled_trees())
def test_what_is_printed_is_parsed_again(tree):
    assert parse_tree(str(tree)) == tree


def test_a_tree_knows_its_tokens_depth_and_label():
    tree = parse_tree("(3 (2 It) (4 (2 's) (3 good)))")
    assert tree.tokens == ("It", "'s", "good")
    assert (tree.depth, tree.label, len(tree)) == (2, 3, 5)
    assert tree.heights == [0, 0, 0, 1, 2]
    assert tree.words == ("It", "'s", "good", "", "")
    assert tree.left == (-1, -1, -1, 1, 0)
    assert tree.right == (-1, -1, -1, 2, 3)


def test_a_tree_of_one_word():
    tree = parse_tree("(2 Yes)")
    assert (tree.depth, len(tree), tree.tokens) == (0, 1, ("Yes",))


def test_a_tree_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse_tree("(2 Yes)").words = ()


@pytest.mark.parametrize("branching", ["left", "right"])
def test_a_tree_of_100000_words_in_a_chain_is_no_deeper_for_python(branching, no_recursion):
    tree = linear(["w"] * 100_000, branching)
    assert tree.depth == 99_999
    assert parse_tree(str(tree)) == tree
    assert len(tree.tokens) == 100_000


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (((), (), (), ()), "a tree needs at least one node; found none"),
        ((("a",), (-1,), (-1,), ()), "found lengths 1, 1, 1, 0"),
        ((("a", "b"), (-1, -1), (-1, -1), (0, 0)), r"a tree must have one root; found 2 \(nodes \[0, 1\]\)"),
        ((("a", "b", ""), (-1, -1, 1), (-1, -1, 0), (0, 0, 0)), "node 2: children 1 and 0 are not the two subtrees"),
        ((("", "a", "b"), (1, -1, -1), (2, -1, -1), (0, 0, 0)), "node 0: children 1 and 2 are not the two subtrees"),
        ((("a", "b", ""), (-1, -1, 0), (-1, -1, -1), (0, 0, 0)), "node 2: children 0 and -1 are not"),
        ((("a", "b", "c"), (-1, -1, 0), (-1, -1, 1), (0, 0, 0)), "node 2: an inner node cannot have a word; found 'c'"),
        ((("a b",), (-1,), (-1,), (0,)), "node 0: a word must not be empty or contain blanks or brackets; found 'a b'"),
        ((("",), (-1,), (-1,), (0,)), "node 0: a word must not be empty"),
        ((("(",), (-1,), (-1,), (0,)), "contain blanks or brackets"),
    ],
)
def test_what_is_no_tree_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Tree(*fields)


def test_the_builder_gives_indices_to_build_on():
    builder = TreeBuilder()
    a, b = builder.leaf("a", 1), builder.leaf("b")
    assert builder.node(a, b, 3) == 2
    assert str(builder.build()) == "(3 (1 a) (? b))"
