"""Adapts a program mechanically: other sizes, no displays, and a mark on its step. What it computes stays as it is."""

from __future__ import annotations

import ast
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Final

# What the marks are called; a child process defines them (`child.py`).
STEP: Final = "__public_step__"
FUNCTION: Final = "__public_function__"
TICK: Final = "__public_tick__"
EXTRACTED: Final = "one_round"
GIVEN: Final = "given_"
# A step that is a loop's round: `loop` at the top of a module, `train.loop` in a function.
LOOP: Final = "loop"
WAYS: Final = ("eager", "decorated", "unmodified", "tf.function")
_LOOPS = (ast.For, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclasses.dataclass(frozen=True)
class Public:
    """A public program, and what is changed before it is run.

    Attributes:
        name: in the table.
        kind: of program.
        repo, commit, file: where it is, on GitHub.
        step: the function that is one step, such as `train_step` or `Agent.learn`; or `loop` or `train.loop`, of which
            one round is a step: the innermost loop with a tape in it, or with a call of `f` for `loop:f`.
        adapted: in words.
        sizes: what assignments to a name, and parameters of that name, are given in place of their values.
        without: functions that do nothing, and statements that call them are left out where nothing takes the result.
        instead: functions that are ours, by name: their source.
        edits: texts of the program, and what stands in their place.
        first: code of ours before the program.
        arguments: of the command line.
        beside: other files that are put beside it, by the path that they are imported by.
        where: of `beside`, the file with the step; "" for the program itself.
    """

    name: str
    kind: str
    repo: str
    commit: str
    file: str
    step: str
    adapted: str = ""
    sizes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    without: tuple[str, ...] = ()
    instead: Mapping[str, str] = dataclasses.field(default_factory=dict)
    edits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    first: str = ""
    arguments: tuple[str, ...] = ()
    beside: Mapping[str, str] = dataclasses.field(default_factory=dict)
    where: str = ""


class CannotAdapt(ValueError):
    """The program has no such step."""


def code_of(text: str, file: str) -> str:
    """The Python code of a program: of a notebook, that of its cells without the lines for the shell."""
    if not file.endswith(".ipynb"):
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return "\n\n".join(_plain("".join(cell["source"])) for cell in cells)


def _plain(cell: str) -> str:
    lines = cell.splitlines()
    if lines and lines[0].lstrip().startswith("%%"):
        lines = lines[1:] if lines[0].split()[0] in ("%%time", "%%timeit") else []
    kept = [("pass #" if line.lstrip()[:1] in ("!", "%") else "") + line.lstrip() for line in lines]
    return "\n".join(
        line if short == line.lstrip() else line[: len(line) - len(line.lstrip())] + short
        for line, short in zip(lines, kept, strict=True)
    )


def adapted(program: Public, text: str, way: str, has_step: bool = True) -> str:
    """The program's code for one of `WAYS`.

    Args:
        program: what is changed.
        text: the code, of the program or of a file beside it.
        way: with marks for this one.
        has_step: whether the step is in this file.

    Raises:
        CannotAdapt: there is no such step, or it cannot be made a function.
    """
    for old, new in program.edits.items():
        text = text.replace(old, new)
    tree = _Changes(program, keeps_functions=way == "tf.function").visit(ast.parse(text))
    if has_step:
        path, _, called = program.step.partition(":")
        if path.split(".")[-1] == LOOP:
            _mark_loop(tree, path.split(".")[:-1], called, is_extracted=way in ("decorated", "tf.function"))
        else:
            _mark_function(_found(tree, path.split(".")))
    if program.first and has_step:
        tree.body[_after_future(tree) : _after_future(tree)] = ast.parse(program.first).body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _after_future(tree: ast.Module) -> int:
    places = [i for i, one in enumerate(tree.body) if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    return places[-1] + 1 if places else 0


# What Keras calls otherwise since version 3; weights that are not downloaded; statements that show or store something.
_KEYWORDS = {"lr": "learning_rate"}
_METHODS = {"reset_states": "reset_state"}
_SHOWING = ("summary", "save_weights", "load_weights", "show", "savefig", "render")


class _Changes(ast.NodeTransformer):
    """Sizes, functions of ours, names that Keras has given up, and no `tf.function`."""

    def __init__(self, program: Public, keeps_functions: bool) -> None:
        self._program, self._keeps_functions = program, keeps_functions

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        size = self._program.sizes.get(ast.unparse(node.targets[0]))
        if size is not None:
            node.value = ast.parse(size, mode="eval").body
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        call = node.value
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func)
            is_showing = name.rpartition(".")[2] in _SHOWING and "." in name
            if (name in self._program.without or is_showing) and not self._takes_a_step(call):
                return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg in _KEYWORDS and not ast.unparse(node.func).endswith("add_argument"):
                keyword.arg = _KEYWORDS[keyword.arg]
            if keyword.arg == "weights" and ast.unparse(keyword.value) == "'imagenet'":
                keyword.value = ast.Constant(None)
        if isinstance(node.func, ast.Attribute):
            node.func.attr = _METHODS.get(node.func.attr, node.func.attr)
            _give_shapes(node, node.func)
        return node.args[0] if node.args and self._is_left_out(node.func) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if node.name in self._program.instead:
            ours = ast.parse(self._program.instead[node.name].strip()).body[0]
            assert isinstance(ours, ast.FunctionDef)
            node.args, node.body, node.decorator_list = ours.args, ours.body, []
        elif node.name in self._program.without:
            node.body = [ast.Pass()]
        every = node.args.posonlyargs + node.args.args
        pairs = [*zip(every[::-1], range(len(node.args.defaults))[::-1], strict=False)]
        for parameter, at in pairs:
            if (size := self._program.sizes.get(parameter.arg)) is not None:
                node.args.defaults[at] = ast.parse(size, mode="eval").body
        node.decorator_list = [one for one in node.decorator_list if not self._is_left_out(one)]
        return node

    def _takes_a_step(self, call: ast.Call) -> bool:
        """Whether an argument is what a step gives: such a statement stays."""
        name = self._program.step.rpartition(".")[2]
        return any(
            isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name
            for argument in (*call.args, *(one.value for one in call.keywords))
            for node in ast.walk(argument)
        )

    def _is_left_out(self, node: ast.AST) -> bool:
        return not self._keeps_functions and is_tf_function(node)


def _give_shapes(call: ast.Call, function: ast.Attribute) -> None:
    """Since version 3 Keras takes a shape for a shape only, no number, and has `add_variable` no more."""
    if function.attr == "add_variable":
        function.attr = "add_weight"
        names = ("name", "shape", "dtype", "initializer", "regularizer", "trainable")
        call.keywords += [ast.keyword(name, value) for name, value in zip(names, call.args, strict=False)]
        call.args = []
    if function.attr == "add_weight":
        for keyword in call.keywords:
            if keyword.arg == "shape" and isinstance(keyword.value, (ast.Attribute, ast.Subscript, ast.Constant)):
                keyword.value = ast.Tuple([keyword.value], ast.Load())
    if function.attr == "Input" and call.args and isinstance(call.args[0], (ast.Constant, ast.Name)):
        call.args[0] = ast.Tuple([call.args[0]], ast.Load())


def is_tf_function(node: ast.AST) -> bool:
    """Whether an expression is `tf.function`, or a call that gives one with options."""
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        is_partial = name.endswith("partial") and bool(node.args) and is_tf_function(node.args[0])
        return is_partial or (not node.args and is_tf_function(node.func))
    return isinstance(node, (ast.Attribute, ast.Name)) and ast.unparse(node) in ("tf.function", "tensorflow.function")


def _found(tree: ast.AST, path: list[str]) -> ast.FunctionDef:
    places: list[ast.AST] = [tree]
    for name in path:
        inner = [one for place in places for one in ast.walk(place)]
        places = [one for one in inner if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and one.name == name]
    functions = [one for one in places if isinstance(one, ast.FunctionDef)]
    if not functions:
        raise CannotAdapt(f"no function {'.'.join(path)}")
    return functions[-1]


def _mark_function(step: ast.FunctionDef) -> None:
    """Its calls are timed, and what makes graphs is below that; a `tf.function` of its own is enough."""
    has_own = any(is_tf_function(one) for one in step.decorator_list)
    step.decorator_list[:0] = [ast.Name(STEP), *([] if has_own else [ast.Name(FUNCTION)])]


def _mark_loop(tree: ast.Module, path: list[str], called: str, is_extracted: bool) -> None:
    scope: ast.Module | ast.FunctionDef = _found(tree, path) if path else tree

    def is_sought(node: ast.AST) -> bool:
        is_call = isinstance(node, ast.Call) and ast.unparse(node.func) == called
        return is_call if called else _is_tape(node)

    loops = [one for one in _inside(scope) if isinstance(one, _LOOPS) and any(map(is_sought, _inside(one)))]
    if not loops:
        raise CannotAdapt("no such loop")
    loop = loops[-1]
    if is_extracted:
        _extract(scope, loop)
    else:
        loop.body.insert(0, ast.Expr(ast.Call(ast.Name(TICK), [], [])))


def _is_tape(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any("GradientTape" in ast.unparse(item) for item in node.items)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a node, from outside inwards, without the functions and classes that are defined in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _SCOPES):
            yield child
            yield from _inside(child)


def _extract(scope: ast.Module | ast.FunctionDef, loop: ast.For | ast.While) -> None:
    """The body of a loop becomes a function, as somebody would write it: what the loop gives are its parameters, what
    is used outside of it is the scope's, and the rest is its own.
    """
    ends = any(map(_breaks, loop.body))
    body = [_Returns().visit(statement) for statement in loop.body]
    names = [one for statement in body for one in [statement, *_inside(statement)] if isinstance(one, ast.Name)]
    ordered = sorted(names, key=lambda one: (one.lineno, one.col_offset))
    stored = {one.id for one in names if isinstance(one.ctx, ast.Store)}
    inside = set(map(id, [*names, *(ast.walk(loop.target) if isinstance(loop, ast.For) else ())]))
    outside = {one.id for one in ast.walk(scope) if isinstance(one, ast.Name) and id(one) not in inside}
    read_first = {one.id for one in names if isinstance(one.ctx, ast.Load)} & {
        name for name in stored if _is_read_first(name, ordered, body)
    }
    given = [one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)] if isinstance(loop, ast.For) else []
    rebound = [name for name in given if name in stored & outside]  # what a round leaves in it is used after the loop
    shared = sorted((stored & (outside | read_first)) - set(given) | set(rebound))
    passed = [GIVEN + name if name in rebound else name for name in given]
    kind = ast.Global if isinstance(scope, ast.Module) else ast.Nonlocal
    step = ast.FunctionDef(
        name=EXTRACTED,
        args=ast.arguments([], [ast.arg(name) for name in passed], None, [], [], None, []),
        body=[
            *([kind(shared)] if shared else []),
            *(ast.Assign([ast.Name(name)], ast.Name(GIVEN + name)) for name in rebound),
            *body,
        ],
        decorator_list=[ast.Name(STEP), ast.Name(FUNCTION)],
    )
    call = ast.Call(ast.Name(EXTRACTED), [ast.Name(name) for name in given], [])
    loop.body = [ast.If(call, [ast.Break()], []) if ends else ast.Expr(call)]
    holder, at = _place(scope, loop)
    holder.insert(at, step)


def _breaks(statement: ast.AST) -> bool:
    """Whether a statement ends the loop that it stands in."""
    parts = () if isinstance(statement, (*_LOOPS, *_SCOPES)) else ast.iter_child_nodes(statement)
    return isinstance(statement, ast.Break) or any(map(_breaks, parts))


def _place(scope: ast.AST, loop: ast.AST) -> tuple[list[ast.stmt], int]:
    """The outermost statement of the scope that has the loop in it: the function is defined before that."""
    body: list[ast.stmt] = scope.body  # type: ignore[attr-defined]
    at = next(i for i, one in enumerate(body) if one is loop or any(inner is loop for inner in ast.walk(one)))
    one = body[at]
    if isinstance(one, ast.If):  # if __name__ == "__main__": what is made there is known only there
        return _place(one, loop) if any(inner is loop for inner in ast.walk(ast.Module(one.body, []))) else (body, at)
    return body, at


def _is_read_first(name: str, ordered: list[ast.Name], body: list[ast.stmt]) -> bool:
    """Whether a round reads what the round before has left: an assignment's right side comes before its left."""
    for statement in body:
        own = [one for one in [statement, *_inside(statement)] if isinstance(one, ast.Name) and one.id == name]
        if own:
            is_changed = any(isinstance(one, ast.AugAssign) for one in [statement, *_inside(statement)])
            simple = isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr))
            loads = any(isinstance(one.ctx, ast.Load) for one in own)
            first = next(one for one in ordered if one.id == name)
            return (simple and (loads or is_changed)) or isinstance(first.ctx, ast.Load)
    return False


class _Returns(ast.NodeTransformer):
    """`continue` of the loop itself is `return`, and `break` returns that it is over."""

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return ast.copy_location(ast.Return(), node)

    def visit_Break(self, node: ast.Break) -> ast.AST:
        return ast.copy_location(ast.Return(ast.Constant(True)), node)

    def visit_For(self, node: ast.For) -> ast.AST:
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node
