"""Streaming learners: thin arrangements of statistic, mechanism, solver and schedule."""
