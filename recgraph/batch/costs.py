"""What the blocks of a plan have done so far, as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from recgraph.batch import plan

_WIDTH = 60  # of the operations of a block


def table(whole: plan.Plan, counts: Sequence[Sequence[int]], reasons: Sequence[str]) -> list[str]:
    """A line for each block that has run, the dearest first.

    Args:
        whole: the plan.
        counts: runs, rows and nanoseconds of each of its blocks; empty where nothing has run.
        reasons: of each block, the operation that only TensorFlow can run; "" where there is none.
    """
    total = sum(nanoseconds for _, _, nanoseconds in counts)
    if total == 0:
        return []
    heading = f"{'time':>7}{'runs':>10}{'rows':>12}{'rows a run':>12}  block"
    lines = [f"blocks have run for {total / 1e9:.3g} s:", heading]
    done = list(zip(whole.blocks, counts, reasons, strict=True))
    for block, (runs, rows, nanoseconds), reason in sorted(done, key=lambda one: -one[1][2]):
        if runs > 0:
            share = f"{100 * nanoseconds / total:.1f} %"
            why = f" (run by TensorFlow, for {reason})" if reason else ""
            lines.append(f"{share:>7}{runs:>10}{rows:>12}{rows / runs:>12.1f}  {block.name}: {_operations(block)}{why}")
    return lines


def _operations(block: plan.Block) -> str:
    text = plan.counted(block.operations)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
