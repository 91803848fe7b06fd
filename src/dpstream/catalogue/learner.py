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
    Entry(
        name="MultiResolutionRelease",
        kind=Kind.LEARNER,
        target=f"{_AT}.window.multi_resolution:MultiResolutionRelease",
        source="003 algorithm 2",
        summary="models of the last 1, 2, 4, ... blocks, refitted as blocks fill up",
        guarantee=_FOREVER,
        horizon="known or none",
        memory="history up to the largest size",
    ),
    Entry(
        name="ContinualRelease",
        kind=Kind.LEARNER,
        target=f"{_AT}.window.continual_release:ContinualRelease",
        source="003 algorithms 3 and 4",
        summary="a model of all data after every block: bases and updates, or refits",
        guarantee=_FOREVER,
        horizon="known or none",
        memory="the whole history",
    ),
    Entry(
        name="BasicRelease",
        kind=Kind.LEARNER,
        target=f"{_AT}.window.basic_release:BasicRelease",
        source="003 figure 5",
        summary="a model of all data now and then, and each block once between",
        guarantee=_FOREVER,
        horizon="known or none",
        memory="the whole history",
    ),
    Entry(
        name="SlidingWindowRelease",
        kind=Kind.LEARNER,
        target=f"{_AT}.window.sliding_window:SlidingWindowRelease",
        source="003 algorithm 5",
        summary="a model of the last w records after every block, for ever",
        guarantee=_FOREVER,
        horizon="known or none",
        memory="one window of records",
    ),
    Entry(
        name="FollowTheLeader",
        kind=Kind.LEARNER,
        target=f"{_AT}.online.follow_the_leader:FollowTheLeader",
        source="002 section III (WDP-COCOP, WDP-COCOL); 004 section 3",
        summary="online scores (logistic, softmax, robust) from one continual sum of gradients "
        "at released models; take it for classification",
        guarantee="every unit, for the stream's whole life; with an expiring sum, for W ticks",
        horizon="known or none",
        memory="the strategy's, times d^2 / 2 (times d with diagonal curvature)",
    ),
    Entry(
        name="POCP",
        kind=Kind.LEARNER,
        target=f"{_AT}.online.pocp:POCP",
        source="004 section 3, appendices B (PIGD), C (PGIGA) and F; section 5 (POL)",
        summary="a secret iterate, or its running average, published through shrinking noise",
        guarantee=_FOREVER,
        horizon="known or none",
        memory="2 vectors",
    ),
)
