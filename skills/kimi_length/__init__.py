"""Skill kimi-length."""
