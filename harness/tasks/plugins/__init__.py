"""Tasks of others, copied here when a study is created."""
