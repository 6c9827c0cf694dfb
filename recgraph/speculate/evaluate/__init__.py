"""Python's syntax: what each statement and expression does, and control flow that a tensor decides.

Files register a rule for each kind of node. `branches` and `loops` convert both ways and merge them.
"""
