"""Learners that answer before each record arrives: papers 002 and 004."""
