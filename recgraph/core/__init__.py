"""Recursion: SubGraphs, the calls of them, their gradients, and the programs they are linked into."""
