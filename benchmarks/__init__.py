"""Benchmarks: what recgraph costs, beside what else one could use, interleaved in one run."""
