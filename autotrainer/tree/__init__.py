"""The run tree: a fold over the journal."""
