"""Learners that solve a problem on everything so far: paper 000."""
