"""How jobs are started, found again, watched and ended."""
