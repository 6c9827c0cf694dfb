"""recgraph: recursive dataflow graphs on TensorFlow."""

import contextlib

from recgraph import batch, errors, native
from recgraph.coexec import steps, watch
from recgraph.core.decorator import subgraph
from recgraph.core.subgraph import SubGraph
from recgraph.draw import draw
from recgraph.function import function
from recgraph.speculate import speculation

__all__ = ["SubGraph", "batch", "draw", "errors", "function", "speculation", "steps", "subgraph"]

native.ops()  # a SavedModel loads in a process that has done no more than `import recgraph`
with contextlib.suppress(errors.NativeLibraryError):  # whoever asks for co-execution is told
    watch()  # so that it is known which variables the datasets use that are made from now on
