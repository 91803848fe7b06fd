"""Losses, and the public constants that privacy and utility rest on.

Each family has one module. Constants hold for every admissible record and every parameter of
the set: they come from public bounds alone (``record_bound``), and one that is infinite is an
error that says which bound to add.
"""
