"""Real runs of the tiny model with one thing wrong, and healthy ones beside them."""
