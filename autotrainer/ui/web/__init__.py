"""The web page of a study: read-only, live, on the loopback interface unless told otherwise."""
