"""Skill dapo-dynamic-sampling."""
