"""Skill adaptive-entropy."""
