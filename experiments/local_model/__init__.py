"""A study planned by a small real language model on this machine: it shows plumbing, not planning."""
