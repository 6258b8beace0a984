"""Training scripts and configs of other tools, read into a study."""
