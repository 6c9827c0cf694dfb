"""`Picture`: a matplotlib figure that a notebook shows although no window of pyplot's has it."""

from __future__ import annotations

import io

from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure

from recgraph.draw import fonts


class Picture(Figure):
    """A figure of its own: it is in no list of pyplot's, so nobody has to close it."""

    def draw(self, renderer: RendererBase) -> None:
        """Draws it; of letters that no font has, `draw` has warned."""
        with fonts.quiet():
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        """What IPython shows, also where `%matplotlib inline` has not told it how figures are shown."""
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()
