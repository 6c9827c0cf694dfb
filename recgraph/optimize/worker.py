"""One of the processes that enumerate graphs: `python -m recgraph.optimize.worker LEVELS PART PARTS`."""

import sys
from pathlib import Path

from recgraph.optimize.generator import work

if __name__ == "__main__":
    work(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
