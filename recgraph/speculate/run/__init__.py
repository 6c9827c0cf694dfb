"""Speculated functions: when a call is converted, which graph fits, what happens when an assumption breaks.

`conversion` puts the floors below together; `function` is what a decorated function is.
"""
