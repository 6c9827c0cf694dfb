"""The three models in other libraries. Each runs in a process of its own, by an interpreter that has the library.

The files are plain modules that know nothing of recgraph: `worker.py` is started with the name of one of them.
"""
