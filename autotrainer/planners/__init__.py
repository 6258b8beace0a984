"""Planners: who proposes the next node."""
