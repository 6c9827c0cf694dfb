"""What depends on CPython: how it parses, where sources are, the texts of its exceptions, what it does not promise.

Another version of Python is looked at here, in `cc/interpreter`, and in the tests of both.
"""
