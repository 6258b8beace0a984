"""Conformance classes and public fakes, for our tests and other people's."""
