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
from recgraph.data.generate import LEXICON


def test_the_head_of_a_phrase_is_the_one_of_lower_rank() -> None:
    """The left one where both are equal."""
    tree = parse_tree("(0 (0 (0 the) (0 film)) (0 (0 is) (0 good)))")
    ranks = {"is": 0, "film": 1, "good": 2, "the": 3}
    assert head_tree(tree, ranks.__getitem__) == DependencyTree(("the", "film", "is", "good"), (1, 2, -1, 2))
    assert head_tree(tree, lambda word: 0).heads == (-1, 0, 0, 2)


def test_what_modifies_depends_on_what_it_describes() -> None:
    """Though a word of lower rank is in it."""
    ranks = {"is": 0, "film": 1, "good": 2}
    tree = parse_tree("(0 (0 (0 a) (0 film)) (0 (0 that) (0 (0 is) (0 good))))")
    found = head_tree(tree, lambda word: ranks.get(word, 3), lambda left, right: (left, right) == ("that", "is"))
    assert found == DependencyTree(("a", "film", "that", "is", "good"), (1, -1, 3, 1, 3))
    assert head_tree(tree, lambda word: ranks.get(word, 3)).root == 3


def test_a_sentence_depends_on_a_verb_and_a_phrase_on_what_it_names_or_describes() -> None:
    """The subject depends on the clause's verb, not on that of a relative clause."""
    trees = generate_dependencies(400, seed=1)
    classes = {word: name for name, (_, words) in LEXICON.items() for word in words}
    verbs, adjectives = {"copula", "verb", "lacks"}, {"great", "good", "plain", "bad", "awful"}
    roots = {classes[tree.words[tree.root]] for tree in trees}
    assert roots == {*verbs, "noun"} | (roots & adjectives)
    assert roots & adjectives
    for tree in trees:
        for place, word in enumerate(tree.words[1:], 1):
            if word == "which":
                verb = tree.heads[place]
                assert classes[tree.words[verb]] in verbs
                assert verb == place + 1
                assert classes[tree.words[tree.heads[verb]]] == "noun"
                assert tree.heads[verb] < place
            if word in ("with", "without"):
                assert classes[tree.words[tree.heads[place]]] == "noun"


def test_wrong_candidates_may_not_stand_in_the_gap() -> None:
    """Though "that" may stand where "the" does, and where "which" does."""
    questions = completion_questions(generate_dependencies(400, seed=4), seed=5)
    by_word: dict[str, set[str]] = {}
    for question in questions:
        others = set(question.candidates) - {question.candidates[question.answer]}
        by_word.setdefault(question.tree.words[question.place], set()).update(others)
    assert by_word["the"].isdisjoint({"a", "an", "this", "that"})
    assert by_word["that"].isdisjoint({"the", "a", "an", "which"})


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
