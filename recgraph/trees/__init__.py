"""Trees from anywhere (JSON, syntax trees, XML, parsers, graphs, tables) as batches for layers; predictions back."""

from recgraph.trees.encoding import Encoder
from recgraph.trees.features import Category, Number, Vector, Words
from recgraph.trees.forest import Forest
from recgraph.trees.libraries import from_ast, from_networkx, from_nltk, from_spacy, from_xml
from recgraph.trees.nested import from_json, from_nested
from recgraph.trees.tables import from_conllu, from_csv, from_parents

__all__ = [
    "Category",
    "Encoder",
    "Forest",
    "Number",
    "Vector",
    "Words",
    "from_ast",
    "from_conllu",
    "from_csv",
    "from_json",
    "from_nested",
    "from_networkx",
    "from_nltk",
    "from_parents",
    "from_spacy",
    "from_xml",
]


def __dir__() -> list[str]:
    """What is public, for completion."""
    return sorted([*__all__, "__doc__", "__name__"])
