"""The programs of the papers: what they compute eagerly they compute as graphs, step by step."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recgraph as rg
from recgraph.data import write_treebank
from recgraph.models.zoo import EAGER, ZOO, cart_pole, pong, real
from recgraph.models.zoo.a3c import A3C, arguments
from tests.speculate import comparing
from tests.speculate.zoo_runs import FEWER_STEPS, STEPS, run, seen

# An episode of every length has a graph of its own: a list grows in a loop over it.
FEWER_GRAPHS = {"a3c": 3}


@pytest.mark.parametrize("name", {**ZOO, **EAGER})
def test_a_program_computes_the_same_as_eagerly(name: str) -> None:
    """Losses, weights and what is kept in Python, after each step; the last batch of an epoch is smaller."""
    count = FEWER_STEPS.get(name, STEPS)
    program = {**ZOO, **EAGER}[name]
    expected, _ = run(program, False, count)
    found, step = run(program, True, count)
    assert comparing.far_apart(expected, found, 1e-4) == []
    assert step.calls["graph"] >= FEWER_GRAPHS.get(name, count // 2), step.explain()


def test_the_comparison_finds_a_program_that_learns_faster() -> None:
    """A comparison that finds nothing would agree with anything."""
    expected, _ = run(ZOO["lstm"], speculated=False)
    made = ZOO["lstm"].make(True)
    made.rate *= 1.01
    steps = itertools.cycle(ZOO["lstm"].steps(ZOO["lstm"].small_batch, True))
    found = [seen(made, made.train_step(*arguments)) for arguments in itertools.islice(steps, STEPS)]
    assert comparing.far_apart(expected, found, 1e-4) != []


def test_the_pole_falls_and_the_cart_starts_anew() -> None:
    """Rollouts end where an episode does, and go on where they were cut."""
    played = list(cart_pole.rollouts(cart_pole.random_policy(), 8, 20))
    assert any(rollout.is_over for rollout in played)
    assert any(not rollout.is_over for rollout in played)
    for before, after in itertools.pairwise(played):
        assert np.array_equal(before.last, after.states[0]) != before.is_over


def test_an_actor_learns_to_keep_the_pole_up() -> None:
    """The programs are not only fast: episodes get longer."""
    made = A3C(32, rate=1e-2)
    step = rg.function(made.train_step, mode="speculate")
    for rollout in cart_pole.rollouts(made.network.policy(), 120, 20):
        step(*arguments(rollout))
    rewards = [float(reward) for reward in made.episodes]
    assert np.mean(rewards[-5:]) > 1.3 * np.mean(rewards[:10])


def test_programs_take_the_same_steps_on_real_data(tmp_path: Path) -> None:
    """Trees of a treebank and text of reviews have the form of what is generated in their place."""
    write_treebank(tmp_path, (30, 5, 5), 0)
    (tmp_path / "train.tsv").write_text("neg\t0\t2\t" + "A film, not good. " * 400 + "\n", encoding="utf-8")
    trees = real.trees(tmp_path, 12, 20)
    assert len(trees) == 12
    words = [node.word for node in trees if node.is_leaf] + [leaf.word for tree in trees for leaf in leaves(tree)]
    assert 0 <= min(words) < max(words) < 20
    text = real.text(tmp_path, 1000, 5)
    assert text.dtype == np.int32
    assert sorted(set(text.tolist())) == [0, 1, 2, 3, 4]  # six words, of which four have numbers
    made = ZOO["tree_rnn"].make(True)
    assert np.isfinite(float(made.train_step(trees)))
    with pytest.raises(ValueError, match=r"have 2400 words; 3000 are needed"):
        real.text(tmp_path, 3000, 5)


def leaves(node: Any) -> list[Any]:
    """The words of a tree."""
    return [node] if node.is_leaf else leaves(node.left) + leaves(node.right)


@pytest.mark.skipif(not pong.is_installed(), reason="the extra `zoo` is not installed")
def test_pong_is_played_and_learned() -> None:
    """Of its memory, the same as eagerly."""
    program = ZOO["ppo"]
    steps = program.steps(32, False)
    assert steps[0][0].shape == [32, pong.STATES]
    found = []
    for speculated in (False, True):
        made = program.make(False)
        step = rg.function(made.train_step) if speculated else made.train_step
        found.append([float(step(*arguments)) for arguments in steps * 3])
    np.testing.assert_allclose(found[1], found[0], 1e-3)
