"""Trees of other libraries' objects: syntax trees, XML, NLTK, spaCy, NetworkX. None of these libraries is imported."""

from __future__ import annotations

import ast
import numbers
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from recgraph.errors import TreeError
from recgraph.trees.forest import ABSENT, Forest, shown, trail
from recgraph.trees.nested import identity_of
from recgraph.trees.tables import forest_of_heads
from recgraph.trees.walking import Reading, Step, read


def _list_of(trees: Any, single: tuple[type, ...] = ()) -> list[Any]:
    """The trees; one that is given by itself is a list of one."""
    return [trees] if isinstance(trees, single) else list(trees)


# Python.

# Python has one object for each of these, wherever it is: they are not shared.
_MARKS = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)


def from_ast(trees: ast.AST | str | Iterable[ast.AST | str]) -> Forest:
    """Reads syntax trees of Python.

    A node has the features `type` (the name of its class), `field` (of the node above it in which it is), `text` (the
    identifier, or the text of a constant) and `number` (a constant that is one). Whether a name is read or assigned to
    (`ast.Load`) is no node.

    Args:
        trees: nodes of `ast`, or texts of programs.

    Raises:
        SyntaxError: a text is no program.

    Examples:
        >>> from_ast("total = price * 2").values("type")
        ['Module', 'Assign', 'Name', 'BinOp', 'Name', 'Mult', 'Constant']
    """
    roots = [ast.parse(tree) if isinstance(tree, str) else tree for tree in _list_of(trees, (ast.AST, str))]
    return read(roots, Reading(_syntax_below, _syntax_values, _syntax_identity, _syntax_place))


def _syntax_below(node: ast.AST) -> Sequence[Step]:
    found: list[Step] = []
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
            found.append((name, value))
        elif isinstance(value, list):
            found += [((name, i), each) for i, each in enumerate(value) if isinstance(each, ast.AST)]
    return found


def _syntax_values(node: ast.AST, step: Any) -> Mapping[str, Any]:
    found: dict[str, Any] = {"type": type(node).__name__, "field": step[0] if isinstance(step, tuple) else step}
    for name, value in ast.iter_fields(node):
        if name == "type_comment":
            continue
        if isinstance(value, str):
            found["text"] = value
        elif isinstance(value, numbers.Real) and isinstance(node, ast.Constant):
            found["number"] = value
        elif name == "value" and isinstance(node, ast.Constant):
            found["text"] = repr(value)
    return found


def _syntax_identity(node: ast.AST) -> Hashable | None:
    return None if isinstance(node, _MARKS) else id(node)


def _syntax_place(tree: int, path: list[Any], node: ast.AST) -> str:
    line = f", line {node.lineno}, column {node.col_offset + 1}" if isinstance(node, ast.expr | ast.stmt) else ""
    return shown(path, f"trees[{tree}]") + line


# XML.


def from_xml(trees: Any) -> Forest:
    """Reads elements of XML or HTML.

    A node has the features `tag`, `text` (without blanks around it), `tail`, and one for each attribute of XML by its
    name after an `@`. Comments and processing instructions are no nodes.

    Args:
        trees: elements of `xml.etree`, or of a library that makes such (lxml, html5lib); or XML texts; or a path of a
            file with one tree.

    Raises:
        TreeError: a text or file is not XML.

    Examples:
        >>> from_xml('<p class="x">so <b>good</b></p>').values("@class")
        ['x', None]
    """
    single = isinstance(trees, str | bytes | os.PathLike) or hasattr(trees, "tag")
    roots = [_element(tree, number) for number, tree in enumerate([trees] if single else trees)]
    return read(roots, Reading(_elements_below, _element_values, id, _element_place, _put_on_element))


def _element(tree: Any, number: int) -> Any:
    """The root of a tree that may be a text, or a document."""
    if not isinstance(tree, str | bytes | os.PathLike):
        return tree.getroot() if hasattr(tree, "getroot") else tree
    try:
        return ElementTree.fromstring(Path(tree).read_bytes() if isinstance(tree, os.PathLike) else tree)
    except ElementTree.ParseError as error:
        raise TreeError(
            "a text is not XML",
            where=str(tree) if isinstance(tree, os.PathLike) else f"trees[{number}]",
            found=str(error),
            next_step="pages of the web mostly are not: have html5lib or lxml.html make elements of them",
        ) from None


def _elements_below(element: Any) -> Sequence[Step]:
    return [(number, child) for number, child in enumerate(element) if isinstance(child.tag, str)]


def _element_values(element: Any, step: Any) -> Mapping[str, Any]:
    found = {f"@{name}": value for name, value in element.attrib.items()}
    found["tag"] = element.tag
    for name, text in (("text", element.text), ("tail", element.tail)):
        if text and text.strip():
            found[name] = text.strip()
    return found


def _element_place(tree: int, path: list[Any], element: Any) -> str:
    line = f", line {element.sourceline}" if getattr(element, "sourceline", None) else ""
    return f"{shown(path, f'trees[{tree}]')} <{element.tag}>{line}"


def _put_on_element(element: Any, name: str, value: Any) -> None:
    element.set(name, str(value))


# NLTK.


def from_nltk(trees: Any) -> Forest:
    """Reads trees of NLTK (`nltk.Tree`). A node has the feature `label`, a leaf the feature `word`.

    Args:
        trees: a tree, or several.

    Examples:
        >>> import nltk
        >>> forest = from_nltk(nltk.Tree.fromstring("(S (NP I) (VP (V saw) (NP him)))"))
        >>> forest.values("word")
        [None, None, 'I', None, None, 'saw', None, 'him']
    """
    roots = [trees] if hasattr(trees, "label") else list(trees)
    for number, root in enumerate(roots):
        if not hasattr(root, "label"):
            raise TreeError(
                f"a {type(root).__name__} is no nltk.Tree",
                where=f"trees[{number}]",
                found=repr(root)[:80],
                next_step="nltk.Tree.fromstring makes one of a text with brackets",
            )
    return read(roots, Reading(_constituents, _constituent, identity_of, _nltk_place))


def _constituents(tree: Any) -> Sequence[Step]:
    return list(enumerate(tree)) if hasattr(tree, "label") else ()


def _constituent(tree: Any, step: Any) -> Mapping[str, Any]:
    return {"label": tree.label()} if hasattr(tree, "label") else {"word": tree}


def _nltk_place(tree: int, path: list[Any], item: Any) -> str:
    label = item.label() if hasattr(item, "label") else item
    return f"{shown(path, f'trees[{tree}]')} ({str(label)[:40]})"


# spaCy.

_OF_TOKENS = {"word": "text", "lemma": "lemma_", "pos": "pos_", "tag": "tag_", "dep": "dep_"}


def from_spacy(docs: Any) -> Forest:
    """Reads dependency trees of spaCy. Each word that depends on none begins a tree, so a document has several.

    A node has the features `word`, `lemma`, `pos`, `tag` and `dep`, those that the pipeline has filled in, and
    `position` in its document. The objects are the tokens. The children of a word are in the order of the text.

    Args:
        docs: a `Doc`, or several.

    Raises:
        TreeError: a document has not been parsed.
    """
    docs = [docs] if hasattr(docs, "has_annotation") else list(docs)
    for number, doc in enumerate(docs):
        if len(doc) > 1 and not doc.has_annotation("DEP"):
            raise TreeError(
                "a document has no dependencies",
                where=f"docs[{number}]",
                found=str(doc)[:80],
                next_step="have a pipeline with a parser read it, such as spacy.load('en_core_web_sm')",
            )
    tokens = [(number, token) for number, doc in enumerate(docs) for token in doc]
    first = {number: start for start, (number, token) in reversed(list(enumerate(tokens)))}
    heads = [-1 if token.head.i == token.i else first[number] + token.head.i for number, token in tokens]
    return forest_of_heads(
        [token for _, token in tokens],
        heads,
        [_token_values(token) for _, token in tokens],
        lambda row: f"docs[{tokens[row][0]}], token {tokens[row][1].i} {tokens[row][1].text!r}",
        _put_on_token,
    )


def _token_values(token: Any) -> dict[str, Any]:
    found = {name: getattr(token, attribute) or ABSENT for name, attribute in _OF_TOKENS.items()}
    return found | {"position": token.i}


def _put_on_token(token: Any, name: str, value: Any) -> None:
    token._.set(name, value)  # declared by Token.set_extension


# NetworkX.


def from_networkx(graphs: Any, root: Any = ABSENT) -> Forest:
    """Reads directed graphs without circles (`networkx.DiGraph`), whose edges lead from a node to its children.

    A graph is one tree: all that can be reached from its root, the one node to which no edge leads. A node with several
    parents is one node. Its features are the attributes of nodes; the objects are the dicts that have them. Attributes
    of edges are not read.

    Args:
        graphs: a graph, or several.
        root: the node that is the root of all of them, where there are several without parents.

    Raises:
        TreeError: a graph has no edges' directions, no root or several, or a circle.
    """
    graphs = [graphs] if hasattr(graphs, "successors") or hasattr(graphs, "adj") else list(graphs)
    roots = [(graph, _root(graph, number, root)) for number, graph in enumerate(graphs)]
    source = Reading(
        lambda item: [(child, (item[0], child)) for child in item[0].successors(item[1])],
        lambda item, step: item[0].nodes[item[1]],
        lambda item: item[1],
        lambda tree, path, item: f"graphs[{tree}], node {trail([roots[tree][1], *path])}",
        given_out=lambda item: item[0].nodes[item[1]],
    )
    return read(roots, source)


def _root(graph: Any, number: int, given: Any) -> Any:
    if not graph.is_directed():
        raise TreeError(
            "the edges of a graph have no direction",
            where=f"graphs[{number}]",
            next_step="say which way is down: networkx.bfs_tree(graph, root), for instance",
        )
    if given is not ABSENT:
        if given not in graph:
            raise TreeError(f"a graph has no node {given!r}", where=f"graphs[{number}]")
        return given
    roots = [node for node, degree in graph.in_degree() if degree == 0]
    if len(roots) == 1:
        return roots[0]
    if not roots and len(graph):
        read([(graph, node) for node in graph], _for_circles(graph, number))  # names it
    raise TreeError(
        f"a graph has {len(roots)} nodes without parents" if roots else "a graph has no nodes",
        where=f"graphs[{number}]",
        found=f"the nodes {', '.join(map(repr, roots[:5]))}" if roots else None,
        expected="one root",
        next_step="give root=, or one graph for each of them" if roots else "leave it out",
    )


def _for_circles(graph: Any, number: int) -> Reading:
    nodes = list(graph)
    return Reading(
        lambda item: [(child, (graph, child)) for child in graph.successors(item[1])],
        lambda item, step: {},
        lambda item: item[1],
        lambda tree, path, item: f"graphs[{number}], node {trail([nodes[tree], *path])}",
    )
