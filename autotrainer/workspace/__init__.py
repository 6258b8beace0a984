"""Versions of the harness: copied, patched, vetted, committed."""
