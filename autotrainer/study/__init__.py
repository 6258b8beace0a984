"""The study: set-up, loop, end, replay."""
