"""The evaluator: frames, names, sites and decisions of one conversion, and the protocol by which it asks values.

It knows no kind of value and no syntax: those come in from above, as `kinds` and `RULES`.
"""
