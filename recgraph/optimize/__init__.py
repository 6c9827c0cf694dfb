"""Substitutions of parts of graphs: generated from a table of operators, and proven from axioms about them.

Nothing here needs TensorFlow. The idea is that of TASO (Jia et al., SOSP 2019). See docs/substitution.md.
"""
