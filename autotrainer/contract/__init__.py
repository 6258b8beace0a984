"""The contract's files, control-plane side."""
