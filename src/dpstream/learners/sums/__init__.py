"""Learners whose model is the sum itself: counts, totals and means, kept fresh."""
