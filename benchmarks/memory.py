"""Whether memory stays flat: resident bytes and live activations over thousands of training steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import report
from recgraph.benchmarks.depth import resident


@click.command()
@click.option("--data", required=True, help="Treebank.")
@click.option("--steps", default=5000, show_default=True, help="How many.")
@click.option("--batch-size", default=1, show_default=True)
@click.option("--model", default="tree_lstm", show_default=True)
@report.out_option
def main(data: str, steps: int, batch_size: int, model: str, out: Path | None) -> None:
    """Measure resident memory every 500 steps of training, and what the activation store holds between steps."""
    figures = measure(data, steps, batch_size, model)
    settled = [row["resident"] for row in figures["rows"][2:]]
    figures["spread"] = (max(settled) - min(settled)) / min(settled)
    rows = [
        [f"{row['steps']:,}", f"{row['resident'] / 1e6:.1f}", f"{row['frames']:,}", f"{row['bytes']:,}"]
        for row in figures["rows"]
    ]
    table = report.markdown(["steps", "resident MB", "live frames", "live bytes"], rows)
    spread = f"Spread of resident memory after the first 1,000 steps: {figures['spread']:.2%}"
    report.leave("memory", figures, f"{table}\n\n{spread}", out)


def measure(data: str, steps: int, batch_size: int, model: str) -> dict[str, Any]:
    """Trains for `steps` steps and looks at the memory after every 500."""
    from recgraph.data import Vocabulary, load_sst, tree_dataset
    from recgraph.models import MODELS
    from recgraph.testing import counters
    from recgraph.train.steps import Steps

    trees = load_sst(data).train
    vocabulary = Vocabulary.build(trees)
    trained = Steps(MODELS[model](len(vocabulary)))
    batches = iter(
        tree_dataset(trees, vocabulary, batch_size, shuffle_seed=0, epochs=1 + steps * batch_size // len(trees))
    )
    rows = []
    for done in range(500, steps + 1, 500):
        trained.train(batches, 500)
        now = counters()
        rows.append({"steps": done, "resident": resident(), "frames": now.live_frames, "bytes": now.live_bytes})
    return {"model": model, "batch_size": batch_size, "rows": rows}


if __name__ == "__main__":
    main()
