"""Skill lite-ppo."""
