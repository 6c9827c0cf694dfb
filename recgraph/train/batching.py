"""Requests that come at the same time as one batch, inside of a graph: so every server that runs it batches them.

TensorFlow's batching function joins the arguments of calls along their first axis, runs one of them, and gives each
call its rows of the results. So arguments and results have the same first axis, and no row tells where in the batch it
is: a request may be anywhere in it.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable

import tensorflow as tf

Rows = tuple[tf.Tensor, ...]

# Batches that may wait. What is beyond them fails as UNAVAILABLE: a server limits its requests before that.
_WAITING = 1000


@dataclasses.dataclass(frozen=True)
class Batching:
    """How requests are batched.

    Attributes:
      size: sentences of a batch at most. A request with more is run at once, alone: it is a batch.
      delay: milliseconds for which a batch waits to be full. Also without any, what comes while others run is batched.
      threads: batches that run at the same time.
    """

    size: int = 64
    delay: float = 0.0
    threads: int = 1

    def __call__(self, function: Callable[..., Rows], rows: int = 1) -> Callable[..., Rows]:
        """The function with calls that come at the same time as one.

        Args:
          function: of tensors with the same first axis, to a tuple of such tensors.
          rows: as many as a sentence is taken to have.
        """
        most = self.size * rows
        joined = tf.nondifferentiable_batch_function(
            self.threads,
            most,
            int(self.delay * 1000),
            max_enqueued_batches=_WAITING,
            autograph=False,
            enable_large_batch_splitting=False,
        )(function)

        def called(*arguments: tf.Tensor) -> Rows:
            count = tf.shape(arguments[0])[0]
            # All batches of one process that have a name wait in one queue, whichever model they are for.
            with tf.name_scope(f"requests_{uuid.uuid4().hex}"):
                is_joined = (count > 0) & (count <= most)
                return tuple(tf.cond(is_joined, lambda: joined(*arguments), lambda: function(*arguments)))

        return called
