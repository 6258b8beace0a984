"""Skill vcrl."""
