"""What the program can do with a value: one class for each kind, with the operations of `machine/protocol.py`.

Each file has a kind, or several that belong together, and what only that kind needs. `conversion.Conversion.kinds`
lists them in the order in which they are asked. A value's operations on other values go through the evaluator.
"""
