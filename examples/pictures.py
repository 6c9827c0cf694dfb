"""Draws the pictures of the gallery: `python examples/pictures.py` all of them, with names of examples only theirs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

matplotlib.use("Agg")
IMAGES = Path(__file__).parents[1] / "docs/images"
BLUE, ORANGE, GREY = "#3b6ea8", "#d9822b", "#9aa3ad"


def axes(count: int, width: float = 8.0, height: float = 3.0) -> tuple[Figure, list[Axes]]:
    """A figure with so many plots side by side, without frames above and to the right."""
    figure = Figure(figsize=(width, height), layout="constrained")
    plots = np.atleast_1d(figure.subplots(1, count))
    for plot in plots:
        plot.spines[["top", "right"]].set_visible(False)
    return figure, list(plots)


def interpreter() -> Figure:
    """The ball's way under the program with the first and the last constants, and how these were found."""
    from interpreter import main

    found = main()
    figure, (way, constants) = axes(2)
    times = np.arange(len(found["measured"])) * 0.08
    way.plot(times, found["curves"][0], color=GREY, label="first constants")
    way.plot(times, found["curves"][-1], color=BLUE, label="fitted constants")
    way.plot(times, found["measured"], "o", color=ORANGE, markersize=4, label="measured")
    way.set(xlabel="seconds", ylabel="height (m)", title="what the program computes")
    way.legend(frameon=False)
    for values, true, name, color in zip(
        found["constants"].T, (9.81, 0.8), ("gravity", "bounce"), (BLUE, ORANGE), strict=True
    ):
        constants.plot(values / true, color=color, label=name)
    constants.axhline(1, color=GREY, linewidth=0.8)
    constants.set(xlabel="step of gradient descent", ylabel="found / true", title="constants of the program")
    constants.legend(frameon=False)
    return figure


def nested_records() -> Figure:
    """A record with the answer beside how often the network is right, with the nesting and without."""
    import json

    from nested_records import main, records

    texts, answers = records(40, [2], seed=3)
    text, answer = min(zip(texts, answers, strict=True), key=lambda each: len(each[0]) + 1000 * (1 - each[1]))
    figure, (record, bars) = axes(2, height=3.4)
    lines = json.dumps(json.loads(text), indent=2).replace('"', "")
    record.axis("off")
    record.text(0, 1, lines, family="monospace", fontsize=7.5, va="top", transform=record.transAxes)
    record.set_title("a record: " + ("overloaded" if answer else "not overloaded"))
    for shift, nested, label, color in ((-0.2, True, "as nested", BLUE), (0.2, False, "as one list", GREY)):
        found = main(nested=nested)
        shown = bars.bar(np.arange(2) + shift, list(found.values()), 0.38, color=color, label=label)
        bars.bar_label(shown, fmt="{:.3f}", fontsize=8)
    bars.set(ylim=(0.5, 1.12), ylabel="accuracy", title="records that it has not seen")
    bars.set_xticks(range(2), list(found))
    bars.legend(frameon=False, ncols=2, loc="upper center")
    return figure


def syntax_trees() -> Figure:
    """A small function's tree with a hole, and how often each model knows what belongs there."""
    import ast

    from syntax_trees import HOLE, TYPES, main, rows

    function = ast.parse("def f(a, b):\n    if a < b:\n        return 1\n    return a.x").body[0]
    table = rows(function, function.body[0].test)
    places: dict[int, tuple[float, float]] = {}

    def put(node: int, level: int, left: float) -> float:
        """Gives where the next leaf goes."""
        inner, end = int(table[node, 1]), left
        while inner >= 0:
            end = put(inner, level + 1, end)
            inner = int(table[inner, 2])
        end = max(end, left + 1)
        places[node] = (left + end) / 2, -level
        return end

    put(0, 0, 0)
    figure, (tree, bars) = axes(2, 9)
    tree.axis("off")
    for node, place in places.items():
        inner = int(table[node, 1])
        while inner >= 0:
            tree.plot(*zip(place, places[inner], strict=True), color=GREY, zorder=0)
            inner = int(table[inner, 2])
        hole = table[node, 0] == HOLE
        text = "?" if hole else {"FunctionDef": "def"}.get(TYPES[table[node, 0]], TYPES[table[node, 0]])
        box = {"facecolor": ORANGE if hole else "white", "edgecolor": GREY, "boxstyle": "round"}
        tree.text(*place, text, ha="center", va="center", fontsize=7, bbox=box)
    tree.set(title="which type of node belongs here?", xlim=(-0.3, 5.6), ylim=(-3.4, 0.4))
    found = main()
    shown = bars.barh(list(found), list(found.values()), color=[GREY, GREY, BLUE])
    bars.bar_label(shown, fmt="{:.3f}", padding=3, fontsize=8)
    bars.set(xlim=(0, 1), title="accuracy on modules that it has not seen")
    return figure


def adaptive_depth() -> Figure:
    """Steps that ways of each length take, and the time of a batch."""
    from adaptive_depth import main

    found = main()
    figure, (steps, seconds) = axes(2)
    lengths = np.arange(1, len(found["steps"]) + 1)
    shown = steps.bar(lengths, found["steps"], color=BLUE)
    steps.bar_label(shown, [f"{100 * each:.1f} %" for each in found["accuracy"]], fontsize=8)
    steps.set(xlabel="pointers on the way", ylabel="steps of thought", title="steps that it takes, and right answers")
    names = ["one by one", "batched"]
    shown = seconds.barh(names, [found[f"seconds {name}"] * 1000 for name in names], color=[GREY, BLUE])
    seconds.bar_label(shown, fmt="{:.0f} ms", padding=3, fontsize=8)
    seconds.set(title="512 problems", xlabel="milliseconds")
    return figure


Molecule = tuple[list[str], list[tuple[int, int, int]]]  # atoms, and bonds with the places of two and an order


def atoms_of(molecule: Molecule) -> dict[int, tuple[complex, complex]]:
    """Where the atoms of a molecule are drawn, and in which direction from the one before."""
    _, bonds = molecule
    places: dict[int, tuple[complex, complex]] = {}

    def put(at: int, place: complex, angle: float, turn: float) -> None:
        places[at] = place, np.exp(1j * angle)
        ends = [(other, order) for one, other, order in bonds if one == at]
        spread = {1: [turn], 2: [1, -1], 3: [1.5, 0, -1.5], 4: [1.5, 0.5, -0.5, -1.5]}
        straight = at > 0 and 3 in [order for *pair, order in bonds if at in pair]
        for (other, _), part in zip(ends, [0] if straight else spread[max(1, len(ends))], strict=False):
            put(other, place + np.exp(1j * (angle + part * np.pi / 3)), angle + part * np.pi / 3, -turn)

    put(0, 0j, 0.0, 0.5)
    return places


def is_clear(molecule: Molecule) -> bool:
    """Whether its atoms are apart when it is drawn, and it is of a middle size."""
    atoms = molecule[0]
    places = [place + (direction if len(atoms[at]) > 1 else 0) for at, (place, direction) in atoms_of(molecule).items()]
    sizes = [1.0 if len(atoms[at]) > 1 else 0.0 for at in atoms_of(molecule)]
    gaps = [abs(p - q) - s - t for p, s in zip(places, sizes) for q, t in zip(places, sizes) if p is not q]  # noqa: B905
    wide = max(abs(place - np.mean(places)) for place in places)
    return 7 <= len(atoms) <= 10 and len(set(atoms)) > 2 and min(gaps) > 0.6 and wide < 3.2


def molecules() -> Figure:
    """Some molecules that the decoder has made and not seen, and shares of both networks."""
    from molecules import main

    def line(plot: Axes, *points: complex) -> None:
        plot.plot(np.real(points), np.imag(points), color="#444", linewidth=1.3, zorder=0, solid_capstyle="round")

    def draw(plot: Axes, molecule: Molecule, middle: complex) -> None:
        """As chemists do: carbon where lines meet has no letter."""
        places = atoms_of(molecule)
        center = np.mean([place for place, _ in places.values()])
        for one, other, order in molecule[1]:
            here, there = (places[at][0] - center + middle for at in (one, other))
            for shift in np.arange(order) - (order - 1) / 2:
                line(plot, *(np.array([here, there]) + 0.16j * shift * (there - here)))
        for at, atom in enumerate(molecule[0]):
            place, direction = places[at][0] - center + middle, places[at][1]
            if len(atom) > 1:
                corners = place + direction + direction * np.exp(1j * np.pi * (np.arange(7) / 3 + 1))
                line(plot, *corners)
                for edge in (0, 2, 4):
                    line(plot, *(0.78 * (corners[edge : edge + 2] - place - direction) + place + direction))
            elif atom != "C":
                box = {"facecolor": "white", "edgecolor": "none", "pad": 0.9}
                spot = place.real, place.imag
                plot.text(*spot, atom, ha="center", va="center", fontsize=9, color=ORANGE, weight="bold", bbox=box)

    found = main()
    figure, (shown, bars) = axes(2, 9, 3.4)
    for number, molecule in enumerate(list(filter(is_clear, found["grown"]["new"]))[:6]):
        draw(shown, molecule, 7.5 * (number % 3) - 7j * (number // 3))
    shown.axis("off")
    shown.set(title="new molecules, without their hydrogen", aspect="equal")
    for shift, way, label, color in (
        (-0.2, "grown", "grown from the grammar", BLUE),
        (0.2, "written", "as strings", GREY),
    ):
        counts = [len(each) / 10 for each in found[way].values()]
        drawn = bars.bar(np.arange(3) + shift, counts, 0.38, color=color, label=label)
        bars.bar_label(drawn, fmt="{:.1f}", fontsize=8)
    bars.set_xticks(range(3), ["valid", "carbon at\neach bond", "new"])
    bars.set(ylim=(0, 125), yticks=range(0, 101, 25), ylabel="% of 1,000", title="what each network makes")
    bars.legend(frameon=False, ncols=2, loc="upper center", fontsize=9)
    return figure


def parser() -> Figure:
    """Where the parser cuts by the operators, and how often both are right by the length of an expression."""
    from parser import LENGTHS, LONGEST, OPERATORS, main

    found = main()
    figure, (cuts, accuracy) = axes(2, 8.5)
    cuts.spines[:].set_visible(False)
    cuts.imshow(found["cuts"] > 0, cmap=ListedColormap(["#dfe8f3", "#f7e5d2"]))
    for (row, column), value in np.ndenumerate(found["cuts"]):
        text = f"{'right' if value > 0 else 'left'}\n{value:+.1f}"
        cuts.text(column, row, text, ha="center", va="center", fontsize=9)
    cuts.set(xlabel="operator to the right", ylabel="operator to the left", title="at which of two it cuts")
    cuts.set_xticks(range(3), OPERATORS)
    cuts.set_yticks(range(3), OPERATORS)
    cuts.tick_params(length=0)
    for name, label, color in (("parser", "the parser", BLUE), ("left to right", "left to right", GREY)):
        accuracy.plot(LENGTHS, found[name], "o-", color=color, markersize=4, label=label)
    accuracy.axvspan(LENGTHS[0], LONGEST, color=ORANGE, alpha=0.12, linewidth=0, label="as in training")
    accuracy.set_xscale("log")
    accuracy.set_xticks(LENGTHS, map(str, LENGTHS))
    accuracy.minorticks_off()
    accuracy.set(
        ylim=(0, 1.05), xlabel="numbers in an expression", ylabel="accuracy", title="expressions that it has not seen"
    )
    accuracy.legend(frameon=False, loc="lower left")
    return figure


PICTURES: list[Callable[[], Figure]] = [interpreter, nested_records, syntax_trees, adaptive_depth, molecules, parser]


def main(names: list[str]) -> None:
    """Writes the pictures of the named examples, or of all."""
    sys.path.insert(0, str(Path(__file__).parent))
    for picture in PICTURES:
        if not names or picture.__name__ in names:
            path = IMAGES / f"gallery_{picture.__name__}.png"
            picture().savefig(path, dpi=110)
            print(path.relative_to(IMAGES.parents[1]), path.stat().st_size // 1024, "KB")


if __name__ == "__main__":
    main(sys.argv[1:])
