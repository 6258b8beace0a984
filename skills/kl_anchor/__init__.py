"""Skill kl-anchor."""
