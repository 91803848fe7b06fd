"""Keyed randomness: secret noise with an exact law, and public randomness kept apart from it."""
