"""Privacy accounting: what ran, what it reveals, and whether the budget allows it.

An *event* says what a mechanism did, as data; ``bounds`` turns it into a *curve*, which composes
with other curves and answers for epsilon and delta; ``calibrate`` goes from a *budget* to the
noise that keeps it; the *ledger* refuses a charge before any noise is drawn and chains its rows
so that they cannot be altered unseen. Bounds are theorems, named where they are used, and every
rounding is towards more privacy spent.
"""
