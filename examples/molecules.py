"""A decoder of small molecules from a grammar: it computes the structure while it decodes, and breaks no valence.

A network grows a molecule bond by bond, at all ends of all molecules of a batch at once, and chooses nothing that
cannot bind. In PyTorch or plain TensorFlow, Python visits one atom after the other, or loops over levels with masks for
what has ended. Beside it is a network that writes the same molecules as strings.

    python examples/molecules.py
"""

from __future__ import annotations

import re

import recgraph as rg

import keras
import numpy as np
import tensorflow as tf

VALENCE = {"C": 4, "N": 3, "O": 2, "S": 2, "F": 1, "c1ccccc1": 1}  # benzene without a hydrogen is an atom here
BONDS, CHARACTERS, SIZE, LONGEST = ["", "", "=", "#"], "\nCNOSFc1=#()", 96, 60  # bonds by their order
# What may follow at an atom: nothing, or a bond and an atom that has the valence for it.
OPTIONS = [(0, "")] + [(order, atom) for order in (1, 2, 3) for atom in VALENCE if order <= VALENCE[atom]]
TEXTS, ORDER, FREE = zip(*((BONDS[o] + atom, o, VALENCE.get(atom, 0) - o) for o, atom in OPTIONS), strict=True)


def draw(rng: np.random.Generator, atom: str = "C", free: int = 4) -> str:
    """What follows at an atom, as SMILES has it; of two atoms that bind, one is carbon."""
    fits = [0 < order <= free and "C" in (atom, end) for order, end in OPTIONS]
    if not any(fits) or rng.random() < 0.45:
        return ""
    option = int(rng.choice(np.flatnonzero(fits)))
    part = TEXTS[option] + draw(rng, OPTIONS[option][1], FREE[option])
    rest = draw(rng, atom, free - ORDER[option])
    return f"({part}){rest}" if rest else part


def parse(text: str) -> tuple[list[str], list[tuple[int, int, int]]] | None:
    """Atoms, and bonds as two atoms and an order; None where atoms, brackets, bonds or valences are wrong."""
    atoms, bonds, forks, at = list[str](), [], list[int](), -1
    for step in re.finditer(rf"(\(?)([=#]?)({'|'.join(VALENCE)})|\)|.", text):
        if step[3] and (at >= 0 or step[0] == step[3]):
            forks += [at] if step[1] else []
            bonds += [(at, len(atoms), max(1, BONDS.index(step[2])))] if at >= 0 else []
            atoms, at = [*atoms, step[3]], len(atoms)
        elif step[0] == ")" and forks:
            at = forks.pop()
        else:
            return None
    fits = all(sum(o for *ends, o in bonds if at in ends) <= VALENCE[atom] for at, atom in enumerate(atoms))
    return (atoms, bonds) if fits and atoms and not forks else None


def canonical(atoms: list[str], bonds: list[tuple[int, int, int]]) -> str:
    """The same text for all ways to write a molecule."""

    def write(at: int, before: int) -> str:
        ends = [(sum(pair) - at, order) for *pair, order in bonds if at in pair]
        return f"{atoms[at]}({','.join(sorted(str(order) + write(to, at) for to, order in ends if to != before))})"

    return min(write(at, -1) for at in range(len(atoms)))


def rows(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Molecules as int32 rows (option, what follows behind it, and beside it), row 0 for nothing; their first rows."""
    table, firsts = [[0, 0, 0]], []
    for atoms, bonds in map(parse, texts):
        first = [0] * len(atoms)
        for one, other, order in reversed(bonds):
            table.append([OPTIONS.index((order, atoms[other])), first[other], first[one]])
            first[one] = len(table) - 1
        firsts.append(first[0])
    return np.array(table, np.int32), np.array(firsts, np.int32)


class Decoder(keras.Model):
    """Grows molecules from a carbon on."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.choice = keras.layers.Embedding(len(OPTIONS), SIZE), keras.layers.Dense(len(OPTIONS))
        self.behind, self.beside = keras.layers.GRUCell(SIZE), keras.layers.GRUCell(SIZE)

    def call(self, given: tuple[tf.Tensor | None, tf.Tensor]) -> tf.Tensor:
        """With rows and some of them, minus the log-probabilities of these; else, strings drawn with seeds."""
        table, at = given
        specs = tf.TensorSpec([], tf.int32), tf.TensorSpec([1, SIZE]), tf.TensorSpec(at.shape[1:], tf.int32)
        result = tf.TensorSpec([], tf.string if table is None else tf.float32)
        with rg.SubGraph("bonds", specs, result, engine="batched") as bonds:
            free, state, here = bonds.declared_arguments()
            logits = self.choice(state) - 1e9 * tf.cast(free < ORDER, tf.float32)
            if table is None:
                option = tf.random.stateless_categorical(logits, 1, here, tf.int32)[0, 0]
                behind, beside, own = tf.random.fold_in(here, 1), tf.random.fold_in(here, 2), tf.gather(TEXTS, option)
            else:
                option, behind, beside = tf.unstack(tf.gather(table, here), num=3)
                own = tf.nn.sparse_softmax_cross_entropy_with_logits(option[None], logits)[0]

            def go_on() -> tf.Tensor:
                seen = self.seen(option[None])
                part = own + bonds(tf.gather(FREE, option), self.behind(seen, [state])[0], behind)
                rest = bonds(free - tf.gather(ORDER, option), self.beside(seen, [state])[0], beside)
                return part + rest if table is not None else tf.where(rest == "", part, "(" + part + ")" + rest)

            bonds.output(tf.cond(option == 0, lambda: own, go_on))
        return bonds.map(tf.repeat(4, tf.shape(at)[0]), tf.zeros([tf.shape(at)[0], 1, SIZE]), at)


def grown(texts: list[str], count: int, steps: int, rng: np.random.Generator) -> list[str]:
    """Molecules of a decoder that has learned from others."""
    model = Decoder()
    model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.004, steps)), lambda _, losses: losses)
    for _ in range(steps):
        model.train_on_batch(rows(rng.choice(texts, 64)), np.zeros(64))
    made = model.call((None, rng.integers(2**31, size=[count, 2], dtype=np.int32)))
    return [f"C{text.decode()}" for text in made.numpy()]


def written(texts: list[str], count: int, steps: int, _: np.random.Generator) -> list[str]:
    """Strings of a recurrent network that has learned from the same molecules."""
    codes = np.array([[CHARACTERS.index(each) for each in f"\n{text}".ljust(LONGEST + 1, "\n")] for text in texts])
    layers = [keras.layers.Embedding(12, SIZE), keras.layers.GRU(192, return_sequences=True), keras.layers.Dense(12)]
    model, (seen, read, out) = keras.Sequential(layers), layers
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(codes[:, :-1], codes[:, 1:], 64, epochs=steps * 64 // len(texts), verbose=0)
    state, found = tf.zeros([count, 192]), [tf.zeros([count], tf.int64)]
    for _ in range(LONGEST):
        state = read.cell(seen(found[-1]), [state])[0]
        found.append(tf.random.categorical(out(state), 1)[:, 0])
    return ["".join(CHARACTERS[code] for code in row[1:]).split("\n")[0] for row in np.stack(found, 1)]


def main(steps: int = 2000, count: int = 1000) -> dict[str, dict[str, list[tuple[list[str], list[tuple]]]]]:
    """Of so many molecules that each network makes, those that are valid, those with carbon at each bond, new ones."""
    keras.utils.set_random_seed(1)
    rng, found = np.random.default_rng(1), {}
    texts = [text for text in ("C" + draw(rng) for _ in range(6000)) if 4 <= len(text) <= LONGEST]
    known = {canonical(*parse(text)) for text in texts}
    for make in (grown, written):
        valid = list(filter(None, map(parse, make(texts, count, steps, rng))))
        right = [m for m in valid if all("C" in (m[0][one], m[0][other]) for one, other, _ in m[1])]
        new = {name: each for each in right if (name := canonical(*each)) not in known}
        found[make.__name__] = {"valid": valid, "of the kind": right, "new": list(new.values())}
    return found


if __name__ == "__main__":
    for name, molecules in main().items():
        print(f"{name}: " + ", ".join(f"{len(each)} {what}" for what, each in molecules.items()))
