"""Skill lr-backoff."""
