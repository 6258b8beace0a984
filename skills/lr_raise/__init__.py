"""Skill lr-raise."""
