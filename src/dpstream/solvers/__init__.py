"""Private batch solvers, and the solvers of what was measured.

A private solver plans without data (steps, noise, events, predicted risk) and then releases
parameters from measurements alone (``plan.Solver``).
"""
