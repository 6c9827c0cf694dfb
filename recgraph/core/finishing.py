"""From a library as bodies were written to the one that runs: its plan, and what TensorFlow's optimizer makes of it.

That is most of the cost of linking, and the library decides it. Keras traces a step several times, and a layer of the
same kind is written alike each time: what is finished once is kept for the next library with the same text. Nothing
of the graphs that a library was written from is in it, so it outlives them.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import threading
import weakref
from typing import Any

import tensorflow as tf

from recgraph.core import engines, graph_optimizer, memoizing, state
from recgraph.core.contract import GradientContract
from recgraph.errors import Unbatchable

# The last few are kept for longer than the programs that use them: between two traces of a step nothing else does.
_RECENT = 8


@dataclasses.dataclass(frozen=True)
class Written:
    """What a program is finished from.

    Attributes:
        library: the functions of all bodies, where the order of state can be seen in them.
        entry: the name of the SubGraph that is called from outside.
        order: what keeps the order of the text.
        memoized: whose equal calls are one.
        contract: how its gradient is called; None without one.
        batched: whether it is for the batched engine, too.
        strict: whether it is an error that it is not.
        keeps_operations: whether the plan keeps the operations of its blocks.
    """

    library: Any
    entry: str
    order: state.InOrder
    memoized: memoizing.Memoized
    contract: GradientContract | None
    batched: bool
    strict: bool
    keeps_operations: bool = False

    def digest(self) -> bytes:
        """Equal for what is finished alike."""
        facts = (
            self.entry,
            sorted(self.order.functions),
            self.order.where,
            self.memoized,
            None if self.contract is None else self.contract.encoded(),
            self.batched,
            self.strict,
            self.keeps_operations,
        )
        made = hashlib.sha256(self.library.SerializeToString(deterministic=True))
        made.update(repr(facts).encode())
        return made.digest()


@dataclasses.dataclass(frozen=True, eq=False)
class Finished:
    """What runs.

    Attributes:
        library: serialised FunctionDefLibrary.
        key: hash of the library.
        report: what TensorFlow's graph optimizer did.
        plan: what the batched engine runs; None where it cannot, or is not to.
        unbatchable: why it cannot.
    """

    library: bytes
    key: str
    report: graph_optimizer.Report | None
    plan: engines.EnginePlan | None = None
    unbatchable: Unbatchable | None = None


class Kept:
    """What was finished, by the digests of what it was finished from; all threads share it."""

    def __init__(self) -> None:
        self._by_digest: weakref.WeakValueDictionary[bytes, Finished] = weakref.WeakValueDictionary()
        self._recent: collections.deque[Finished] = collections.deque(maxlen=_RECENT)
        self._lock = threading.Lock()

    def find(self, digest: bytes) -> Finished | None:
        """What is kept for a digest."""
        with self._lock:
            return self._by_digest.get(digest)

    def keep(self, digest: bytes, made: Finished) -> Finished:
        """Keeps what was made for a digest. Returns it, or what another thread has kept for that in the meantime."""
        with self._lock:
            found = self._by_digest.setdefault(digest, made)
            self._recent.append(found)
            return found

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._by_digest.clear()
            self._recent.clear()


kept = Kept()


def finished(written: Written) -> Finished:
    """What runs; made at the first use.

    Raises:
        Unbatchable: it cannot be batched, and that is an error.
    """
    digest = written.digest()
    return kept.find(digest) or kept.keep(digest, _finish(written))


def key_of(library: bytes) -> str:
    """The hash by which a process knows a program; `CheckKey` in `cc/kernels/program.cc` computes it again."""
    return hashlib.sha256(library).hexdigest()[:32]


def _finish(written: Written) -> Finished:
    library = written.library
    plan, unbatchable = _plan(written) if written.batched else (None, None)
    optimized, report = graph_optimizer.optimize(library)
    state.mark(optimized, written.order)
    memoizing.mark(optimized, written.memoized)
    if plan is not None:
        optimized.function.extend(plan.copied({function.signature.name: function for function in optimized.function}))
        optimized.function.append(plan.carrier())
    if written.contract is not None:
        written.contract.write(optimized, written.entry)
    serialized = optimized.SerializeToString(deterministic=True)
    return Finished(serialized, key_of(serialized), report, plan, unbatchable)


def _plan(written: Written) -> tuple[engines.EnginePlan | None, Unbatchable | None]:
    """The plan of the batched engine; the functions of its blocks go into the library."""
    if written.order.functions:
        why = "state that the bodies read and write, one invocation after another,"
        return None, Unbatchable(why, written.order.where)
    if written.memoized.functions:
        return None, Unbatchable(f"SubGraph '{written.memoized.name}', which is memoized,")
    if _hands_on_resources(written.library):
        return None, Unbatchable("a resource that is handed from call to call")
    roots = [f"{written.entry}{suffix}" for suffix in ("", ".rec", ".grad")]
    try:
        plan = engines.compile_batched(written.library, roots, written.keeps_operations)
    except Unbatchable as why:
        if written.strict:
            raise
        return None, why.with_traceback(None)  # which would keep the graphs
    if plan is not None:
        written.library.function.extend(plan.functions)
    return plan, None


def _hands_on_resources(library: Any) -> bool:
    """Whether some function is given a variable, a table: what the batched engine gathers are values."""
    signatures = [function.signature for function in library.function]
    arguments = (argument for signature in signatures for argument in (*signature.input_arg, *signature.output_arg))
    return any(argument.type == tf.resource.as_datatype_enum for argument in arguments)
