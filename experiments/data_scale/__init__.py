"""Training sets of a million rows."""
