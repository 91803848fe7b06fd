"""Durable memory for streams: the embedded SQLite store, and the published log beside it."""
