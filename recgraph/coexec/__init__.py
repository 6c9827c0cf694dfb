"""Co-execution: the Python program keeps running, its tensor operations run as a graph beside it."""

from recgraph.coexec.device import watch as watch
from recgraph.coexec.function import Coexecuted as Coexecuted
from recgraph.coexec.phases import Execution as Execution
from recgraph.coexec.steps import Steps as Steps
from recgraph.coexec.steps import steps as steps
