"""Skill off-policy-mask."""
