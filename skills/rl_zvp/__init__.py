"""Skill rl-zvp."""
