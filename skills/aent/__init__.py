"""Skill aent."""
