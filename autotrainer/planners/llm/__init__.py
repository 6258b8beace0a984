"""The language-model planner: it reads a digest of the evidence and returns a decision, which is checked."""
