"""What a program changes between two of its steps: those after it do what eager steps do, whatever was converted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from tests import sampling
from tests.speculate import changes

BEFORE, AFTER = 7, 5
MODES = ("speculate", "auto", "coexec")
CHANGES: dict[str, tuple[Any, Any]] = {
    **{f"Keras: {name}": (changes.Program, change) for name, change in changes.OF_KERAS.items()},
    **{f"plain: {name}": (changes.Plain, change) for name, change in changes.OF_PLAIN.items()},
}
# Each in every mode, if all are asked for; else a few, each mode in turn.
CASES = [(name, mode) for name in CHANGES for mode in MODES]
CASES = CASES if sampling.ALL else CASES[::58]


def batch(number: int) -> tuple[tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(number)
    return tf.constant(rng.normal(size=(6, 4)).astype("f")), tf.constant(rng.normal(size=(6, 1)).astype("f"))


def trained(name: str, mode: str | None) -> tuple[list[Any], list[list[np.ndarray]], Any]:
    """Losses, or the kinds of errors, and states of all steps, with the change in their middle."""
    make, change = CHANGES[name]
    with pytest.MonkeyPatch.context() as patch:
        program = make()
        step: Any = program.step if mode is None else rg.function(program.step, mode=mode)
        losses: list[Any] = []
        states = []
        for number in range(BEFORE + AFTER):
            if number == BEFORE:
                if mode == "speculate":
                    assert step.calls["graph"] > 1, step.explain()
                change(program, patch)
            try:
                losses.append(np.asarray(step(*batch(number))))
            except Exception as error:
                losses.append(type(error).__name__)
            states.append(program.state())
        return losses, states, step


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_a_change_is_seen(name: str, mode: str) -> None:
    losses, states, _ = trained(name, None)
    found, after, step = trained(name, mode)
    for number, (one, other) in enumerate(zip(losses, found, strict=True)):
        if isinstance(one, str) or isinstance(other, str):
            assert number >= BEFORE
            assert one == other
        else:
            message = f"step {number}: {step.explain()}"
            np.testing.assert_allclose(other, one, rtol=2e-3, atol=1e-4, err_msg=message)
    for number, (of_one, of_other) in enumerate(zip(states, after, strict=True)):
        for a, b in zip(of_one, of_other, strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-2, atol=2e-3, err_msg=f"step {number}: {step.explain()}")


# Eager execution does not look at these either, and graphs have to leave them alone.
WITHOUT_EFFECT = {
    *("Keras: frozen and thawed", "Keras: last.use_bias", "Keras: a layer's losses", "Keras: a regularizer's call"),
    *("Keras: image_data_format", "Keras: dtype_policy", "Keras: seed of TensorFlow", "Keras: nothing"),
    *("plain: nothing", "plain: axis", "plain: Part.__init__"),
}


def _same(one: Any, other: Any) -> bool:
    return one == other if isinstance(one, str) or isinstance(other, str) else np.allclose(one, other, 2e-3, 1e-4)


@pytest.mark.parametrize("name", [name for name, mode in CASES if mode == MODES[0]])
def test_a_change_changes_something(name: str) -> None:
    """A change without effect would agree with a graph that does not see it."""
    unchanged, same, _ = trained(f"{name.split(': ')[0]}: nothing", None)
    losses, states, _ = trained(name, None)
    ours, others = [*losses, *states[-1]], [*unchanged, *same[-1]]
    is_same = len(ours) == len(others) and all(map(_same, ours, others))
    assert is_same == (name in WITHOUT_EFFECT)
