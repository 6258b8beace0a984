"""Skill larger-groups."""
