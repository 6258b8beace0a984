"""Isolation for code that nobody trusts; used as programs from both sides.

Standard library only, and nothing of the other trees.
"""
