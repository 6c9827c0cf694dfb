"""What depends on the version of CPython: how it parses, where sources are, and the texts of its exceptions.

Another version of Python is looked at here, in `cc/interpreter`, and in the tests of both.
"""
