"""Generated dependency trees and the questions about them."""

from __future__ import annotations

from recgraph.data import (
    DependencyTree,
    Vocabulary,
    completion_questions,
    generate_dependencies,
    head_tree,
    parse_tree,
    top_down_batch,
)


def test_the_head_of_a_phrase_is_the_one_of_lower_rank() -> None:
    """The left one where both are equal."""
    tree = parse_tree("(0 (0 (0 the) (0 film)) (0 (0 is) (0 good)))")
    ranks = {"is": 0, "film": 1, "good": 2, "the": 3}
    assert head_tree(tree, ranks.__getitem__) == DependencyTree(("the", "film", "is", "good"), (1, 2, -1, 2))
    assert head_tree(tree, lambda word: 0).heads == (-1, 0, 0, 2)


def test_a_sentence_depends_on_a_verb() -> None:
    """The grammar has one in every clause."""
    verbs = {"is", "seems", "feels", "remains", "has", "offers", "delivers", "contains", "lacks", "avoids", "misses"}
    assert all(tree.words[tree.root] in verbs for tree in generate_dependencies(50, seed=1))


def test_a_question_has_its_answer_among_the_candidates() -> None:
    """And the same questions come again with the same seed."""
    trees = generate_dependencies(30, seed=2)
    questions = completion_questions(trees, seed=3)
    assert questions == completion_questions(trees, seed=3)
    for question in questions:
        assert len(set(question.candidates)) == 5
        assert question.filled()[question.answer] == question.tree
    assert {question.answer for question in questions} == set(range(5))


def test_dependents_are_linked_from_the_nearest_outwards() -> None:
    """To either side of their head."""
    first, second = DependencyTree(tuple("abcde"), (2, 2, -1, 2, 3)), DependencyTree(("f",), (-1,))
    batch = top_down_batch([second, first], Vocabulary(("<unk>", *"abcdef")))
    assert batch.words.tolist() == [6, 1, 2, 3, 4, 5]
    assert batch.left.tolist() == [-1, -1, -1, 2, -1, -1]
    assert batch.right.tolist() == [-1, -1, -1, 4, 5, -1]
    assert batch.next.tolist() == [-1, -1, 1, -1, -1, -1]
    assert batch.roots.tolist() == [0, 3]
