"""Skill dapo-clip-higher."""
