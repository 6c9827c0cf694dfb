"""The Python around a graph: what is assumed and read before it runs, and the values that only the script knows.

A conversion writes into a `Script` from above, line by line; through it `Heap` reads the objects that were there
before.
"""
