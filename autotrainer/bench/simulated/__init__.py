"""Whole studies in the simulated world: for benchmarks of planners, judging and kill rules. SIMULATED."""
