"""Mirrors of a study in experiment trackers; each can be rebuilt from the study's files."""
