"""Trees and where they come from: treebanks, reviews, generated sentences, binarisers, batches for models."""

from recgraph.data.binarize import SHAPES, balanced, binarize, brackets, linear, moderate, tree_of_spans
from recgraph.data.completion import (
    Question,
    TopDownBatch,
    completion_questions,
    generate_dependencies,
    head_tree,
    top_down_batch,
)
from recgraph.data.dependency import DependencyTree
from recgraph.data.fetch import SOURCES, FetchError, Source, fetch
from recgraph.data.files import DATA_VARIABLE, DataFormatError, data_dir
from recgraph.data.generate import evaluate, generate_treebank, write_treebank
from recgraph.data.imdb import (
    REVIEW_LABELS,
    Review,
    ReviewFormatError,
    escape,
    read_imdb,
    review_trees,
    sentences,
)
from recgraph.data.pairs import PairBatch, pair_dataset
from recgraph.data.pipeline import Part, Share, TreeBatch, encode, tree_dataset
from recgraph.data.ptb import (
    TreeFormatError,
    from_nltk,
    parse_lines,
    parse_tree,
    read_trees,
    to_nltk,
    write_trees,
)
from recgraph.data.replicas import TreeRows, whole
from recgraph.data.sick import Pair, PairFormatError, Pairs, load_sick, read_pairs, sick_dir
from recgraph.data.sst import SENTIMENTS, Treebank, load_sst, sst_dir
from recgraph.data.tokenizing import spaced, tokenize, tokenize_all
from recgraph.data.trees import NO_LABEL, Tree, TreeBuilder
from recgraph.data.vectors import Embeddings, VectorFormatError, load_embeddings, read_vectors
from recgraph.data.vocabulary import UNKNOWN, Vocabulary, lookup

__all__ = [
    "DATA_VARIABLE",
    "NO_LABEL",
    "REVIEW_LABELS",
    "SENTIMENTS",
    "SHAPES",
    "SOURCES",
    "UNKNOWN",
    "DataFormatError",
    "DependencyTree",
    "Embeddings",
    "FetchError",
    "Pair",
    "PairBatch",
    "PairFormatError",
    "Pairs",
    "Part",
    "Question",
    "Review",
    "ReviewFormatError",
    "Share",
    "Source",
    "TopDownBatch",
    "Tree",
    "TreeBatch",
    "TreeBuilder",
    "TreeFormatError",
    "TreeRows",
    "Treebank",
    "VectorFormatError",
    "Vocabulary",
    "balanced",
    "binarize",
    "brackets",
    "completion_questions",
    "data_dir",
    "encode",
    "escape",
    "evaluate",
    "fetch",
    "from_nltk",
    "generate_dependencies",
    "generate_treebank",
    "head_tree",
    "linear",
    "load_embeddings",
    "load_sick",
    "load_sst",
    "lookup",
    "moderate",
    "pair_dataset",
    "parse_lines",
    "parse_tree",
    "read_imdb",
    "read_pairs",
    "read_trees",
    "read_vectors",
    "review_trees",
    "sentences",
    "sick_dir",
    "spaced",
    "sst_dir",
    "to_nltk",
    "tokenize",
    "tokenize_all",
    "top_down_batch",
    "tree_dataset",
    "tree_of_spans",
    "whole",
    "write_treebank",
    "write_trees",
]


def __dir__() -> list[str]:
    """What is public, for completion."""
    return sorted([*__all__, "__doc__", "__name__"])
