"""An interpreter as one graph function, with gradients through the program that it runs: fits constants of a program.

Programs are written in a small part of Python: functions that call themselves, `=`, `if`, arithmetic. They become rows
of a table, so one graph runs every program, on a batch of inputs at once, each input along its own path. Plain
TensorFlow would have to trace each program anew, and cannot trace one that calls itself; PyTorch can run the rows in
Python, one operation of one input after the other.

    python examples/interpreter.py
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import recgraph as rg

import keras
import numpy as np
import tensorflow as tf

BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Lt: "<", ast.Gt: ">"}
KINDS = ["constant", "variable", "let", "if", "call", *BINARY.values()]
SLOTS = 6  # how many variables a function may have; the arguments are the first
UNITS = [10.0, 1.0]  # of gravity and bounce, so that both are found in steps of one size

# Where a ball that falls and bounces is after so many steps of 0.04 seconds.
BALL = """
def ball(height, speed, steps):
    speed = speed - gravity * 0.04
    height = height + speed * 0.04
    if height < 0:
        height = 0 - height * bounce
        return ball(height, 0 - speed * bounce, steps - 1)
    return height if steps < 1 else ball(height, speed, steps - 1)
"""


class Program:
    """The functions of a source as rows `(kind, a, b, c, d)`, where a to d are rows, variables or constants.

    The row of a function is `roots[name]`. `constants` are those that the source calls by `names`, then its numbers.
    """

    def __init__(self, source: str, names: Sequence[str] = ()) -> None:
        functions = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
        self.rows: list[list[int]] = [[0] * 5 for _ in functions]  # a function's first row is known before its body
        self.roots = {function.name: number for number, function in enumerate(functions)}
        self.names, self.constants = list(names), [0.0] * len(names)
        for number, function in enumerate(functions):
            variables = [argument.arg for argument in function.args.args]
            self.rows[number] = self.rows[self.block(function.body, variables)]

    def row(self, kind: str, *below: int) -> int:
        self.rows.append([KINDS.index(kind), *below, *[0] * (4 - len(below))])
        return len(self.rows) - 1

    def block(self, body: Sequence[ast.stmt], variables: list[str]) -> int:
        """Statements up to a `return`; an assignment is a `let` around those that follow."""
        first, *rest = body
        if isinstance(first, ast.Return):
            return self.expression(first.value, variables)
        if isinstance(first, ast.If):
            test = self.expression(first.test, variables)
            return self.row("if", test, self.block(first.body, variables), self.block(rest, variables))
        name, value = first.targets[0].id, self.expression(first.value, variables)
        inner = variables if name in variables else [*variables, name]
        return self.row("let", inner.index(name), value, self.block(rest, inner))

    def expression(self, node: ast.expr, variables: list[str]) -> int:

        match node:
            case ast.Constant(value):
                self.constants.append(float(value))
                return self.row("constant", len(self.constants) - 1)
            case ast.Name(name) if name in variables:
                return self.row("variable", variables.index(name))
            case ast.Name(name):
                return self.row("constant", self.names.index(name))
            case ast.BinOp(left, operator, right) | ast.Compare(left, [operator], [right]):
                return self.row(BINARY[type(operator)], *[self.expression(each, variables) for each in (left, right)])
            case ast.IfExp(test, body, orelse):
                return self.block([ast.If(test, [ast.Return(body)]), ast.Return(orelse)], variables)
            case ast.Call(ast.Name(function), arguments):
                filled = [*arguments, *[ast.Constant(0)] * (3 - len(arguments))]
                return self.row("call", self.roots[function], *[self.expression(each, variables) for each in filled])
        raise SyntaxError(f"not in the language: {ast.unparse(node)}")


def make_interpreter(table: tf.Tensor, constants: tf.Tensor | tf.Variable) -> rg.SubGraph:
    """`run(row, variables)`: the value of a row int32, given the values of the variables float32 `[SLOTS]`."""
    specs = (tf.TensorSpec([], tf.int32), tf.TensorSpec([SLOTS]))
    with rg.SubGraph("run", specs, tf.TensorSpec([]), engine="batched") as run:
        row, variables = run.declared_arguments()
        kind, a, b, c, d = tf.unstack(tf.gather(table, row), num=5)

        def let() -> tf.Tensor:
            here = tf.one_hot(a, SLOTS)
            return run(c, variables * (1 - here) + run(b, variables) * here)

        def call() -> tf.Tensor:
            arguments = tf.stack([run(b, variables), run(c, variables), run(d, variables)])
            return run(a, tf.pad(arguments, [[0, SLOTS - 3]]))

        meaning = {
            "constant": lambda: tf.gather(constants, a),
            "variable": lambda: tf.gather(variables, a),
            "let": let,
            "if": lambda: tf.cond(run(a, variables) != 0, lambda: run(b, variables), lambda: run(c, variables)),
            "call": call,
            "+": lambda: run(a, variables) + run(b, variables),
            "-": lambda: run(a, variables) - run(b, variables),
            "*": lambda: run(a, variables) * run(b, variables),
            "/": lambda: run(a, variables) / run(b, variables),
            "<": lambda: tf.cast(run(a, variables) < run(b, variables), tf.float32),
            ">": lambda: tf.cast(run(a, variables) > run(b, variables), tf.float32),
        }
        run.output(tf.switch_case(kind, [meaning[name] for name in KINDS]))
    return run


def main(steps: int = 120) -> dict[str, np.ndarray]:
    """Finds gravity and bounce of a ball from 25 measured heights; gives them after each step, and the curves."""
    program = Program(BALL, ["gravity", "bounce"])
    table, others = tf.constant(program.rows), tf.constant(program.constants[2:])
    inputs = np.stack([[2.0, 0.0, time, 0, 0, 0] for time in range(0, 50, 2)]).astype(np.float32)
    roots = tf.fill([len(inputs)], program.roots["ball"])
    true = make_interpreter(table, tf.concat([[9.81, 0.8], others], 0)).map(roots, inputs)
    measured = true + tf.random.stateless_normal([len(inputs)], [1, 2], stddev=0.02)
    found, optimizer = tf.Variable([0.7, 0.5]), keras.optimizers.Adam(0.02)

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            heights = make_interpreter(table, tf.concat([found * UNITS, others], 0)).map(roots, inputs)
            loss = tf.reduce_mean((heights - measured) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, found), found)])
        return heights

    curves, constants = [], []
    for _ in range(steps):
        curves.append(step().numpy())
        constants.append(found.numpy() * UNITS)
    return {"constants": np.array(constants), "measured": measured.numpy(), "curves": np.array(curves)}


if __name__ == "__main__":
    for name, value in zip(["gravity", "bounce"], main()["constants"][-1], strict=True):
        print(f"{name}: {value:.3f}")
