"""The survey of a foreign run: rules for every class of the taxonomy that a log can show, also a short one."""
