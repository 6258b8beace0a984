"""Benchmarks: one module each, found by name; results are recorded under experiments/results."""
