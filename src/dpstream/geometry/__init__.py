"""Constraint sets, what can be computed over them, and their mirror-descent potentials.

A set states its capabilities by its type (``convex_set``): some can be projected on, some have
a local linear oracle, some are the unit ball of a gauge. All have public size constants.
"""
