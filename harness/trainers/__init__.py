"""The trainers and what they are built from. Frozen."""
