"""Skill reinforce-ada."""
