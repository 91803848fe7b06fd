"""Learners of recent data: paper 003."""
