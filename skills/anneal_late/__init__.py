"""Skill anneal-late."""
