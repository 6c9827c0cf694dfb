"""The order of the agenda: blocks come before those that they can lead to, and are alike where rows go in circles."""

from __future__ import annotations

import itertools
import random

import pytest

from recgraph.batch import priority

Place = tuple[str, int]


def reached(edges: dict[Place, set[Place]]) -> dict[Place, set[Place]]:
    """All that each place can lead to, itself included."""
    found = {place: {place} for place in edges}
    for _ in edges:
        for place, following in edges.items():
            found[place].update(*(found[after] for after in following))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_components_are_in_the_order_of_the_ways(seed: int) -> None:
    """Of random graphs, from sparse ones to those that are one circle."""
    generator = random.Random(seed)
    places = [(name, event) for name in "fgh" for event in range(4)]
    generator.shuffle(places)
    pairs = [pair for pair in itertools.permutations(places, 2) if generator.random() < seed / 60]
    edges = {place: {after for before, after in pairs if before == place} for place in places}
    components = priority._components(edges)
    assert sorted(place for component in components for place in component) == sorted(places)
    number = {place: i for i, component in enumerate(components) for place in component}
    ways = reached(edges)
    for one, other in itertools.permutations(places, 2):
        assert (number[one] == number[other]) == (other in ways[one] and one in ways[other])
        if other in ways[one]:
            assert number[one] <= number[other]
