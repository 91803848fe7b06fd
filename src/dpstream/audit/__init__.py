"""Attacks on dpstream itself: measured lower bounds on epsilon against every claim.

An audit builds neighbouring streams from public bounds alone, finds the worst ones by search,
runs the mechanism in both worlds many times and compares what an attacker sees with what was
claimed: too little noise fails, and so does too much. Without the power to tell, it fails too.
"""
