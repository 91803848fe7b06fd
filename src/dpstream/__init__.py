"""dpstream: differentially private models kept fresh on a stream of people's records."""

__version__ = "0.1.0"
