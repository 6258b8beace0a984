"""Isolation for code that nobody trusts. Imports nothing of ours; standard library only; used as programs from both sides."""
