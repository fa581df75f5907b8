"""Measurements: `./run bench NAME` prints one JSON object a line on stdout, all else on stderr."""
