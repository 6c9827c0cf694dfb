"""The decoder of molecules: what it makes is valid, also untrained; the checker is right; it learns the kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture(scope="module")
def example(load: Callable[[str], Any]) -> Any:
    return load("molecules")


@pytest.mark.slow
@pytest.mark.long
def test_it_learns_the_kind_and_makes_new_ones(example: Any) -> None:
    found = example.main(steps=400, count=300)
    counts = {way: [len(each) for each in made.values()] for way, made in found.items()}
    valid, of_the_kind, new = counts["grown"]
    assert valid == 300
    assert of_the_kind > 285
    assert new > 75
    assert counts["written"][0] < 300


def made(example: Any, model: Any, seeds: np.ndarray) -> list[str]:
    return [f"C{text.decode()}" for text in model.call((None, tf.constant(seeds, tf.int32))).numpy()]


def test_what_is_made_is_valid_whatever_the_weights_are(example: Any) -> None:
    """Bonds at random, most of them to what cannot bind much."""
    keras.utils.set_random_seed(1)
    model = example.Decoder()
    texts = made(example, model, np.random.default_rng(1).integers(2**31, size=[200, 2]))
    assert all(example.parse(text) for text in texts)
    assert len(set(texts)) > 50


def test_a_molecule_does_not_depend_on_the_others_of_its_batch(example: Any) -> None:
    keras.utils.set_random_seed(2)
    model = example.Decoder()
    seeds = np.random.default_rng(2).integers(2**31, size=[50, 2])
    assert made(example, model, seeds) == made(example, model, seeds[:1]) + made(example, model, seeds[1:])


@pytest.mark.parametrize(
    ("text", "atoms", "bonds"),
    [
        ("C", ["C"], []),
        ("CC(=O)N", ["C", "C", "O", "N"], [(0, 1, 1), (1, 2, 2), (1, 3, 1)]),
        ("Cc1ccccc1", ["C", "c1ccccc1"], [(0, 1, 1)]),
        ("C(C(F)F)#C", ["C", "C", "F", "F", "C"], [(0, 1, 1), (1, 2, 1), (1, 3, 1), (0, 4, 3)]),
    ],
)
def test_molecules_are_read(example: Any, text: str, atoms: list[str], bonds: list[tuple[int, int, int]]) -> None:
    assert example.parse(text) == (atoms, bonds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "CF=C",
        "C(C)(C)(C)(C)C",
        "C=O=C",
        "C(C",
        "CC)",
        "C(",
        "C=",
        "C==C",
        "=C",
        "(C)C",
        "C()C",
        "c1ccc1",
        "CX",
        "C#S",
    ],
)
def test_what_is_no_molecule_is_told(example: Any, text: str) -> None:
    assert example.parse(text) is None


def test_ways_to_write_a_molecule_are_one(example: Any) -> None:
    def canonical(text: str) -> str:
        return example.canonical(*example.parse(text))

    assert len({canonical(text) for text in ("CC(=O)N", "C(N)(C)=O", "NC(C)=O", "O=C(C)N")}) == 1
    assert len({canonical(text) for text in ("CC(=O)N", "CC(N)O", "CC(=N)O", "CCC(=O)N")}) == 4


def test_those_it_learns_from_are_of_the_kind(example: Any) -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        atoms, bonds = example.parse("C" + example.draw(rng))
        assert all("C" in (atoms[one], atoms[other]) for one, other, _ in bonds)


def test_a_probability_is_what_plain_recursion_gives(example: Any) -> None:
    """And those of all that can follow at an atom are 1 in all."""
    keras.utils.set_random_seed(4)
    model = example.Decoder()
    rng = np.random.default_rng(5)
    texts = np.array(["C" + example.draw(rng) for _ in range(15)])
    table, firsts = example.rows(texts)
    found = model.call((tf.constant(table), tf.constant(firsts))).numpy()

    def loss(node: int, free: int, state: Any) -> float:
        option, behind, beside = table[node]
        logits = model.choice(state).numpy()[0].astype(float)
        scores = np.where(np.array(example.ORDER) <= free, np.exp(logits), 0)
        own = -float(np.log(scores[option] / scores.sum()))
        if option == 0:
            return own
        seen = model.seen(tf.constant([option]))
        below = loss(behind, example.FREE[option], model.behind(seen, [state])[0])
        return own + below + loss(beside, free - example.ORDER[option], model.beside(seen, [state])[0])

    expected = [loss(first, 4, tf.zeros([1, example.SIZE])) for first in firsts]
    np.testing.assert_allclose(found, expected, rtol=1e-3)
