"""Recursive algorithms as graph functions: the fast Fourier transform, quicksort, and an associative scan.

Each is the definition from the textbook, works for every length, and has a gradient. In plain TensorFlow a function
that calls itself is traced without end; Keras's `associative_scan` is unrolled into 48 nested conditionals, so it ends
there. PyTorch runs such a recursion in Python, one level after the other.

    python examples/algorithms.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import recgraph as rg

import tensorflow as tf

COMPLEX = tf.TensorSpec([None], tf.complex64)
FLOAT = tf.TensorSpec([None], tf.float32)


def make_fft() -> rg.SubGraph:
    """The discrete Fourier transform of complex64 `[N]`, N a power of 2 (Cooley and Tukey, 1965)."""
    with rg.SubGraph("fft", COMPLEX, COMPLEX) as fft:
        x = fft.declared_arguments()

        def halves() -> tf.Tensor:
            even, odd = fft(x[::2]), fft(x[1::2])
            n = tf.cast(tf.size(x), tf.float32)
            angle = -2 * math.pi / n * tf.range(n / 2)
            odd *= tf.complex(tf.cos(angle), tf.sin(angle))
            return tf.concat([even + odd, even - odd], 0)

        fft.output(tf.cond(tf.size(x) <= 1, lambda: x, halves))
    return fft


def make_quicksort() -> rg.SubGraph:
    """The numbers of float32 `[N]` in ascending order (Hoare, 1961); the gradient goes where each came from."""
    with rg.SubGraph("quicksort", FLOAT, FLOAT) as quicksort:
        x = quicksort.declared_arguments()

        def parts() -> tf.Tensor:
            pivot = x[tf.size(x) // 2]
            smaller, same, larger = (tf.boolean_mask(x, where) for where in (x < pivot, x == pivot, x > pivot))
            return tf.concat([quicksort(smaller), same, quicksort(larger)], 0)

        quicksort.output(tf.cond(tf.size(x) <= 1, lambda: x, parts))
    return quicksort


Nest = Sequence[tf.Tensor]


def make_scan(combine: Callable[[Nest, Nest], Nest], specs: Sequence[tf.TensorSpec]) -> rg.SubGraph:
    """All prefixes `x[0]`, `x[0] * x[1]`, `x[0] * x[1] * x[2]`, ... in about 2 log2(N) steps of many elements each.

    Args:
        combine: an associative operation on many pairs of elements, along the first dimension.
        specs: of the tensors that elements are made of, each `[None, ...]`.

    Source: Blelloch, "Prefix Sums and Their Applications" (1990).
    """
    with rg.SubGraph("scan", tuple(specs), tuple(specs)) as scan:
        x = scan.declared_arguments()
        count = tf.shape(x[0])[0]

        def pairs() -> Nest:
            odd = scan(*combine([part[:-1:2] for part in x], [part[1::2] for part in x]))  # prefixes of even length
            behind = combine([part[: (count - 1) // 2] for part in odd], [part[2::2] for part in x])
            even = [tf.concat([part[:1], rest], 0) for part, rest in zip(x, behind, strict=True)]
            order = tf.argsort(tf.concat([tf.range(0, count, 2), tf.range(1, count, 2)], 0))
            return tuple(tf.gather(tf.concat(each, 0), order) for each in zip(even, odd, strict=True))

        scan.output(tf.cond(count <= 1, lambda: tuple(x), pairs))
    return scan


def linear_recurrence(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """`h[t] = a[t] h[t - 1] + b[t]` from `h[-1] = 0`, all `[N]`, as state space models have it; without a loop."""
    scan = make_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), [FLOAT, FLOAT])
    return scan(a, b)[1]


def main() -> None:
    """Shows each beside what TensorFlow gives."""
    x = tf.random.stateless_normal([1024], [1, 2])
    signal = tf.cast(x, tf.complex64)
    difference = tf.reduce_max(tf.abs(make_fft()(signal) - tf.signal.fft(signal)))
    print(f"fft of 1,024 numbers: at most {float(difference):.1e} from tf.signal.fft")
    print("quicksort:", bool(tf.reduce_all(make_quicksort()(x) == tf.sort(x))))
    a, b = tf.sigmoid(x), tf.random.stateless_normal([1024], [3, 4])
    with tf.GradientTape() as tape:
        tape.watch(a)
        last = linear_recurrence(a, b)[-1]
    print(f"linear recurrence over 1,024 steps: {float(last):.4f}, its gradient {tf.norm(tape.gradient(last, a)):.4f}")


if __name__ == "__main__":
    main()
