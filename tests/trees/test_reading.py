"""Trees from every source: what is read of them, what is shared, what no depth breaks, and what is wrong where."""

from __future__ import annotations

import ast
import dataclasses
import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nltk
import numpy as np
import pytest

import recgraph as rg
from recgraph.errors import TreeError
from tests import spacy_stand_in

trees = rg.trees
DEEP = 100_000


def nested(forest: Any, name: str, node: int | None = None) -> Any:
    """A forest as `(value, [children])`, a list of one for each tree."""
    if node is None:
        return [nested(forest, name, int(root)) for root in forest.roots]
    return forest.values(name)[node], [nested(forest, name, child) for child in forest.below(node)]


def chain(count: int) -> list[Any]:
    """Lists in each other."""
    top: list[Any] = []
    inner = top
    for _ in range(count):
        inner.append([])
        inner = inner[0]
    return top


def test_every_value_of_nested_lists_and_dicts_is_a_node() -> None:
    forest = trees.from_nested([{"name": "x", "parts": [1, 2.5, None, True]}, "alone", np.array([1.0, 2.0])])
    assert len(forest) == 3
    assert forest.values("kind") == ["dict", "text", "list", "number", "number", "none", "number", "text", "vector"]
    assert forest.values("key") == [None, "name", "parts", None, None, None, None, None, None]
    assert forest.values("number") == [None, None, None, 1, 2.5, None, True, None, None]
    assert forest.values("text")[1] == "x"
    assert repr(forest) == "<Forest of 3 trees, 9 nodes: kind, text, key, number, vector>"


def test_records_have_children_where_it_is_said() -> None:
    record = {"op": "+", "args": [{"value": 1}, "leaf", {"op": "-", "args": [{"value": 2}]}]}
    forest = trees.from_nested([record, {"value": 7}], children="args")
    assert nested(forest, "op") == [("+", [(None, []), (None, []), ("-", [(None, [])])]), (None, [])]
    assert forest.values("value") == [None, 1, "leaf", None, 2, 7]
    assert forest.objects[1] is record["args"][0]
    only = trees.from_nested([record], children="args", features=["op"])
    assert list(only.columns) == ["op"]


def test_children_that_have_names_of_their_own() -> None:
    tree = {"word": "a", "left": {"word": "b"}, "right": {"word": "c", "left": None, "right": {"word": "d"}}}
    forest = trees.from_nested([tree], children=("left", "right"))
    assert forest.values("word") == ["a", "b", "c", "d"]
    assert {name: numbers.tolist() for name, numbers in forest.roles.items()} == {
        "left": [1, -1, -1, -1],
        "right": [2, -1, 3, -1],
    }


@dataclasses.dataclass
class Part:
    weight: float
    parts: list[Part] = dataclasses.field(default_factory=list)
    _hidden: int = 1


class Slotted:
    __slots__ = ("inner", "name")

    def __init__(self, name: str, inner: Any = None) -> None:
        self.name, self.inner = name, inner


def test_objects_of_the_users_classes() -> None:
    shared = Part(2.0)
    forest = trees.from_nested([Part(1.0, [shared, Part(3.0, [shared])])], children="parts")
    assert forest.values("weight") == [1.0, 2.0, 3.0]
    assert list(forest.columns) == ["weight"]
    assert [forest.below(node) for node in range(3)] == [[1, 2], [], [1]]
    names = trees.from_nested([Slotted("a", Slotted("b"))], children=("inner",))
    assert names.values("name") == ["a", "b"]
    halves = trees.from_nested([8], children=lambda n: [n // 2, n // 2] if n > 1 else [], features={"n": lambda n: n})
    assert halves.values("n") == [8, 4, 2, 1, 1, 2, 1, 1, 4, 2, 1, 1, 2, 1, 1]


def test_what_is_at_several_places_is_one_node_unless_python_shares_it_by_itself() -> None:
    inner = [1]
    forest = trees.from_nested([[inner, inner, (), (), "a", "a"]])
    assert forest.values("kind") == ["list", "list", "number", "list", "list", "text", "text"]
    assert forest.below(0) == [1, 1, 3, 4, 5, 6]
    again = trees.from_nested([inner, inner])  # in trees of their own
    assert len(again.objects) == 4


def test_no_depth_is_too_deep(tmp_path: Path) -> None:
    deep = chain(DEEP)
    assert len(trees.from_nested([deep]).objects) == DEEP + 1
    text = '{"a": [' * DEEP + '"x"' + "]}" * DEEP
    path = tmp_path / "deep.json"
    path.write_text(text, encoding="utf-8")
    forest = trees.from_json(path)
    assert len(forest.objects) == 2 * DEEP + 1
    assert forest.values("text")[-1] == "x"
    root = ET.fromstring("<a>" * DEEP + "</a>" * DEEP)
    assert len(trees.from_xml(root).objects) == DEEP
    forest = trees.from_parents([None, *range(DEEP - 1)])
    assert len(forest.objects) == DEEP
    batch = trees.Encoder().adapt(forest).batch(forest)
    assert batch["children"].shape.as_list() == [1, None, None]
    assert forest.paths == DEEP


@pytest.mark.slow
def test_a_chain_of_a_million_nodes() -> None:
    forest = trees.from_parents([None, *range(999_999)])
    assert len(forest.objects) == 1_000_000
    assert forest.below(999_998) == [999_999]


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"a": [], "b": {"c": [1, -2.5e3, true, null]}, "d": ""}', ' [ 1 , "\\u00e9" ] ']
)
def test_the_parser_for_deep_texts_reads_what_pythons_reads(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from recgraph.trees import json_text

    assert json_text._deep(text) == json.loads(text)
    assert json_text._deep(f"[[{text}], {text}]") == json.loads(f"[[{text}], {text}]")


@pytest.mark.parametrize(
    "text", ["", "[", "{", "[1", "[1,", "[1,]", '{"a"}', '{"a":}', '{"a":1,}', "{1:2}", "[1]]", "nul", '["a']
)
def test_the_parser_for_deep_texts_refuses_what_pythons_refuses(text: str) -> None:
    from recgraph.trees import json_text

    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    with pytest.raises(json.JSONDecodeError):
        json_text._deep(text)


def test_json_of_texts_and_files(tmp_path: Path) -> None:
    lines = tmp_path / "trees.jsonl"
    lines.write_text('\ufeff{"v": 1}\n\n{"v": 2, "of": [{"v": 3}]}\n', encoding="utf-8")
    assert trees.from_json(lines, children="of").values("v") == [1, 2, 3]
    array = tmp_path / "trees.json"
    array.write_text('[{"v": 1}, {"v": 2}]', encoding="utf-8")
    assert len(trees.from_json(array, children="of")) == 2
    assert len(trees.from_json(array)) == 1
    assert trees.from_json(['{"v": 1}', b'{"v": 2}'], children="of").values("v") == [1, 2]


def test_syntax_trees() -> None:
    forest = trees.from_ast(["x = 1 + y", ast.parse("'a'", mode="eval")])
    assert forest.values("type") == [
        *("Module", "Assign", "Name", "BinOp", "Constant", "Add", "Name"),
        *("Expression", "Constant"),
    ]
    assert forest.values("text") == [None, None, "x", None, None, None, "y", None, "a"]
    assert forest.values("number") == [None, None, None, None, 1, None, None, None, None]
    assert forest.values("field")[1:4] == ["body", "targets", "value"]
    twice = trees.from_ast("a + b + c")  # Python has one object for both signs
    assert twice.values("type").count("Add") == 2


def test_elements_of_xml(tmp_path: Path) -> None:
    path = tmp_path / "page.xml"
    path.write_text("<a n='1'> one <!-- no node --><b/>two<b>three</b></a>", encoding="utf-8")
    forest = trees.from_xml(path)
    assert forest.values("tag") == ["a", "b", "b"]
    assert (forest.values("text"), forest.values("tail")) == (["one", None, "three"], [None, "two", None])
    assert forest.values("@n") == ["1", None, None]
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    root = ET.fromstring("<a><!-- x --><b/></a>", parser)
    assert len(trees.from_xml([root, ET.ElementTree(root)]).objects) == 4
    forest = trees.from_xml(root)
    forest.write("class", np.array([1.5, 2.0]))
    assert ET.tostring(root).startswith(b'<a class="1.5">')


def test_trees_of_nltk() -> None:
    tree = nltk.Tree.fromstring("(S (NP the dog) (VP barks))")
    forest = trees.from_nltk([tree, nltk.Tree("X", [])])
    assert forest.values("label") == ["S", "NP", None, None, "VP", None, "X"]
    assert forest.values("word") == [None, None, "the", "dog", None, "barks", None]
    assert forest.objects[1] is tree[0]
    shared = nltk.Tree("N", ["a"])
    assert len(trees.from_nltk(nltk.Tree("S", [shared, shared])).objects) == 3


@pytest.fixture
def spacy(monkeypatch: pytest.MonkeyPatch) -> Any:
    modules = spacy_stand_in.modules()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return modules["spacy"]


def test_documents_of_spacy(spacy: Any) -> None:
    def doc(words: str, heads: list[int]) -> Any:
        return spacy.tokens.Doc(
            spacy.vocab.Vocab(), words=words.split(), heads=heads, deps=["d"] * len(heads), pos=["NOUN"] * len(heads)
        )

    forest = trees.from_spacy([doc("I saw her go", [1, 1, 3, 1]), doc("yes no", [0, 1])])
    assert nested(forest, "word") == [("saw", [("I", []), ("go", [("her", [])])]), ("yes", []), ("no", [])]
    assert forest.values("position") == [1, 0, 3, 2, 0, 1]
    assert "lemma" not in forest.columns
    assert forest.objects[0].text == "saw"
    spacy.tokens.Token.set_extension("score", default=None)
    forest.write("score", np.arange(6.0))
    assert forest.objects[2]._.score == 2.0
    with pytest.raises(TreeError, match="a document has no dependencies") as caught:
        trees.from_spacy(spacy.tokens.Doc(spacy.vocab.Vocab(), words=["not", "parsed"]))
    assert "where:     docs[0]" in str(caught.value)


def test_graphs_of_networkx() -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.DiGraph([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    graph.nodes["d"]["weight"] = 2.0
    forest = trees.from_networkx(graph)
    assert [forest.below(node) for node in range(4)] == [[1, 3], [2], [], [2]]
    assert forest.values("weight") == [None, None, 2.0, None]
    assert forest.paths == 5
    forest.write("seen", np.array([1, 2, 3, 4]))
    assert dict(graph.nodes(data="seen")) == {"a": 1, "b": 2, "d": 3, "c": 4}
    assert len(trees.from_networkx(graph, root="b").objects) == 2


CONLLU = """# text = They buy books
1\tThey\tthey\tPRON\tPRP\tCase=Nom\t2\tnsubj\t_\t_
2-3\tbuyem\t_\t_\t_\t_\t_\t_\t_\t_
2\tbuy\tbuy\tVERB\tVBP\t_\t0\troot\t_\t_
2.1\tgone\t_\t_\t_\t_\t_\t_\t_\t_
3\tbooks\tbook\tNOUN\tNNS\t_\t2\tobj\t_\t_

1\tYes\t_\t_\t_\t_\t0\troot\t_\t_
"""


def test_sentences_in_conllu(tmp_path: Path) -> None:
    path = tmp_path / "text.conllu"
    path.write_text(CONLLU.replace("\n", "\r\n"), encoding="utf-8")
    for source in (CONLLU, path):
        forest = trees.from_conllu(source)
        assert nested(forest, "word") == [("buy", [("They", []), ("books", [])]), ("Yes", [])]
        assert forest.values("feats") == [None, "Case=Nom", None, None]
        assert forest.values("position") == [2, 1, 3, 1]
        assert forest.objects[2]["form"] == "books"
    features = {"Case": "Nom", "Number": "Sing"}
    tokens = [
        [
            {"id": 1, "form": "a", "feats": features, "head": 2},
            {"id": (1, "-", 2), "form": "-"},
            {"id": 2, "form": "b", "head": 0},
        ]
    ]
    assert trees.from_conllu(tokens).values("word") == ["b", "a"]


def test_tables_with_a_parent_in_each_row(tmp_path: Path) -> None:
    path = tmp_path / "parts.csv"
    path.write_text(
        "tree;id;parent;name;weight\nx;1;;car;\nx;2;1;wheel;7.5\ny;1;;cart;20\nx;3;1;1_0;nan\n", encoding="utf-8"
    )
    forest = trees.from_csv(path, tree="tree", delimiter=";")
    assert nested(forest, "name") == [("car", [("wheel", []), ("1_0", [])]), ("cart", [])]
    weights = forest.values("weight")
    assert weights[:2] == [None, 7.5]
    assert np.isnan(weights[2])
    assert weights[3] == 20
    assert forest.objects[1] == {"tree": "x", "id": "2", "parent": "1", "name": "wheel", "weight": "7.5"}
    with open(path, encoding="utf-8") as stream:
        assert len(trees.from_csv(stream, tree="tree", delimiter=";")) == 2
    forest = trees.from_parents(["b", None], ids=["a", "b"], features={"n": [1, 2]})
    assert forest.objects == [{"n": 2, "id": "b", "parent": None}, {"n": 1, "id": "a", "parent": "b"}]


def circle() -> Any:
    inner: dict[str, Any] = {"of": []}
    inner["of"].append({"of": [{"of": [inner]}]})
    return trees.from_nested([{"of": []}, {"of": [inner]}], children="of")


def deep_circle() -> Any:
    deep = chain(DEEP)
    inner = deep
    while inner:
        inner = inner[0]
    inner.append(deep)
    try:
        return trees.from_nested([deep])
    finally:
        inner.clear()


def graph(*edges: Any, **options: Any) -> Any:
    nx = pytest.importorskip("networkx")
    return trees.from_networkx(nx.DiGraph(edges), **options)


def csv(text: str, tmp_path: Path, **options: Any) -> Any:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    return trees.from_csv(path, **options)


WRONG: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "a circle of dicts": (
        lambda path: circle(),
        ["a node is below itself", "trees[1].of[0].of[0].of[0].of[0]", "the node at trees[1].of[0] again, 3 levels"],
    ),
    "a circle of many lists": (
        lambda path: deep_circle(),
        ["trees[0][0][0][0][0][0] ... (99991 steps) ... [0][0][0][0][0]", "100001 levels"],
    ),
    "one tree without a list around it": (
        lambda path: trees.from_nested({"of": []}, children="of"),
        ["trees are given one by one, in a list", "a dict", "put it in a list"],
    ),
    "children that are no list": (
        lambda path: trees.from_nested([{"of": [{"of": "ab"}]}], children="of"),
        ["'of' of a node is no list of children", "str: 'ab'", "where:     trees[0].of[0]"],
    ),
    "a list where one child is expected": (
        lambda path: trees.from_nested([{"left": []}], children=("left",)),
        ["'left' of a node is a list, and is to be one child", "children='left'"],
    ),
    "an object that is no value": (
        lambda path: trees.from_nested([[1, object()]]),
        ["a object is no list, dict, number, text or array", "where:     trees[0][1]", "say where its children are"],
    ),
    "features of values": (
        lambda path: trees.from_nested([[1]], features=["x"]),
        ["say where the children of a node are"],
    ),
    "a text that is no JSON": (
        lambda path: trees.from_json('{"a":\n [1,,2]}'),
        ["a text is not JSON", "text, line 2, column 5", "Expecting value"],
    ),
    "lines in a file of one tree": (
        lambda path: trees.from_json('{"a": 1}\n{"a": 2}'),
        ["Extra data", "a file with one tree in each line is named .jsonl"],
    ),
    "no XML": (lambda path: trees.from_xml("<a><b></a>"), ["a text is not XML", "trees[0]", "mismatched tag"]),
    "no tree of NLTK": (lambda path: trees.from_nltk(["(S a)"]), ["a str is no nltk.Tree", "nltk.Tree.fromstring"]),
    "a graph with two roots": (
        lambda path: graph((1, 3), (2, 3)),
        ["a graph has 2 nodes without parents", "graphs[0]", "the nodes 1, 2", "give root="],
    ),
    "a graph without a root": (
        lambda path: graph((1, 2), (2, 1)),
        ["a node is below itself", "graphs[0], node 1 > 2 > 1", "2 levels"],
    ),
    "a graph with a circle below the root": (
        lambda path: graph((0, 1), (1, 2), (2, 1)),
        ["graphs[0], node 0 > 1 > 2 > 1"],
    ),
    "a root that is not there": (lambda path: graph((0, 1), root=7), ["a graph has no node 7"]),
    "a head that is no word": (
        lambda path: trees.from_conllu(CONLLU.replace("\t2\tobj", "\t9\tobj")),
        ["the parent 9 is no node", "line 6 (id 3)"],
    ),
    "fields that are missing": (
        lambda path: trees.from_conllu("1\ta\t0"),
        ["ten fields", "line 1", "3: '1\\ta\\t0'"],
    ),
    "a head that is no number": (
        lambda path: trees.from_conllu(CONLLU.replace("\t0\troot", "\tx\troot")),
        ["the head of a word is a number", "line 4", "'x'"],
    ),
    "a sentence with two roots": (
        lambda path: trees.from_conllu(CONLLU.replace("\t2\tobj", "\t0\tobj")),
        ["a tree has two roots", "line 6 (id 3)", "line 4 (id 2)"],
    ),
    "a word that is its own head": (
        lambda path: trees.from_conllu(CONLLU.replace("Yes\t_\t_\t_\t_\t0", "Yes\t_\t_\t_\t_\t1")),
        ["a word is its own head", "line 8"],
    ),
    "a word that is there twice": (
        lambda path: trees.from_conllu(CONLLU.replace("3\tbooks", "1\tbooks")),
        ["the id 1 is there twice", "where:     line 6", "the same id at line 2"],
    ),
    "two roots in a file": (
        lambda path: csv("id,parent\n1,\n2,1\n3,\n", path),
        ["a tree has two roots", "t.csv:4 (id '3')", "t.csv:2 (id '1')", "tree="],
    ),
    "an id that is there twice": (
        lambda path: csv("id,parent\n1,\n1,1\n", path),
        ["the id '1' is there twice", "t.csv:3", "t.csv:2", "tree="],
    ),
    "a parent that is no number": (
        lambda path: csv("id,parent\n1,nan\n", path),
        ["the parent 'nan' is no node", "t.csv:2", "a missing parent is an empty field"],
    ),
    "a parent that pandas has changed": (
        lambda path: csv("id,parent\n1,\n2,1.0\n", path),
        ["the parent '1.0' is no node", "t.csv:3", ".astype('Int64')"],
    ),
    "parents of another type": (
        lambda path: trees.from_parents([None, "0"]),
        ["the parent '0' is no node", "row 1 (id 1)", "of one type"],
    ),
    "a parent that is not a number": (
        lambda path: trees.from_parents([None, float("nan")]),
        ["the parent nan is no node", "row 1", "None"],
    ),
    "an id that is missing": (lambda path: csv("id,parent\n,\n", path), ["a node has no id", "t.csv:2"]),
    "rows in a circle": (
        lambda path: csv("id,parent\n1,\n2,4\n3,2\n4,3\n", path),
        ["in a circle", "3 rows", "t.csv:3 (id '2'), below ", "t.csv:5 (id '4'), below ", "t.csv:4 (id '3'), below "],
    ),
    "nothing but a circle": (lambda path: trees.from_parents([1, 0]), ["in a circle", "row 0 (id 0)"]),
    "a column that is not there": (
        lambda path: csv("node,parent\n1,\n", path),
        ["there is no column 'id'", "t.csv:1", "node, parent", "id=..., parent=..."],
    ),
    "a line that is too short": (
        lambda path: csv("id,parent,x\n1,,2\n2,1\n", path),
        ["another number of fields", "t.csv:3"],
    ),
    "columns of different lengths": (
        lambda path: trees.from_parents([None, 0], features={"x": [1]}),
        ["the column 'x' has another length", "found:     1", "expected:  2"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_place(name: str, tmp_path: Path) -> None:
    make, texts = WRONG[name]
    with pytest.raises(TreeError) as caught:
        make(tmp_path)
    message = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    for text in texts:
        assert text in message


def test_an_exception_of_a_function_of_the_users_has_the_place() -> None:
    def children(item: Any) -> Any:
        return [item - 1, 6 // (item - 1)]

    with pytest.raises(ZeroDivisionError) as caught:
        trees.from_nested([3], children=children, features={"n": lambda n: n})
    assert caught.value.__notes__ == ["while trees[0][0][0] was read"]


def test_children_without_end_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recgraph.trees.walking.DEEPEST", 1000)
    with pytest.raises(TreeError, match="a node is more than 1000 levels deep") as caught:
        trees.from_nested([0], children=lambda n: [n + 1], features={"n": lambda n: n})
    assert "next step: check that the function that gives children comes to an end" in str(caught.value)


def test_files_with_ends_of_lines_in_fields_have_the_right_line(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match=r"no node") as caught:
        csv('id,parent,text\n1,,"a\nb"\n2,7,c\n', tmp_path)
    assert f"{tmp_path}/t.csv:4" in str(caught.value)
