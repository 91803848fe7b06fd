"""Imported by the fork server alone: compiled loops load here, once, not in every child."""

from dpstream.testing.small_stream import small_records, small_stream

small_stream().domain.admit(small_records(1))
