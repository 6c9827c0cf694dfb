"""The batched forms of operations, in one table. `VectorizedRows` and `Site` are explained in `vectorize`."""

from recgraph.batch.rules import elementwise as elementwise
from recgraph.batch.rules import lookups as lookups
from recgraph.batch.rules import matrices as matrices
from recgraph.batch.rules import products as products
from recgraph.batch.rules import reductions as reductions
from recgraph.batch.rules import shapes as shapes
from recgraph.batch.rules import slices as slices
