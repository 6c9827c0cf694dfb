"""What is done to a graph: the order of effects, guards, gradients that depend on a way, rewrites, random numbers.

Conversion asks them while it builds, and runs them over the finished graph.
"""
