"""Streaming learners."""

from dpstream.catalogue.entry import Entry, Kind

_AT = "dpstream.learners"
_FOREVER = "every unit, for the stream's whole life"

LEARNERS = (
    Entry(
        name="RunningSum",
        kind=Kind.LEARNER,
        target=f"{_AT}.sums.running_sum:RunningSum",
        source="000 appendix D; 004 algorithm 5",
        summary="sums and means of bounded columns: running, windowed, decayed, expiring",
        guarantee=_FOREVER,
        horizon="known or none",
        memory="the strategy's, times the number of columns",
    ),
    Entry(
        name="PrivIncReg1",
        kind=Kind.LEARNER,
        target=f"{_AT}.incremental.priv_inc_reg1:PrivIncReg1",
        source="000 section 4; 004 section 4 (PQFTL's problem)",
        summary="linear regression kept fresh on one continual sum of moments",
        guarantee=_FOREVER,
        horizon="known or none",
        memory="the strategy's, times d^2 / 2",
    ),
)
