"""Readers: other people's logs as rows under TRL's key names."""
