"""An agent that designs and tunes RL training runs of language models."""

__version__ = "0.1.0"
