"""Hooks: files here change how a job trains, at the fixed points of api.py."""
