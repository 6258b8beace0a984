"""Skill overlong."""
