"""The measured trade-off curve against the claim."""

from dpstream.audit.evidence import AuditResult
from dpstream.errors import ConfigurationError
from dpstream.report.figure import Line, line_figure


def trade_off_picture(result: AuditResult) -> str:
    """An SVG: what an attacker's errors are, and the least that they may be.

    The measured curve must lie above the claimed one, within its band (pointwise 95 %).

    Raises:
        ConfigurationError: if the audit measured nothing.
    """
    evidence = result.evidence
    if evidence is None:
        raise ConfigurationError(f"the audit of {result.name} measured nothing: no picture")
    alarms, missed, low, high = evidence.trade_off()
    claimed = evidence.claimed_trade_off(alarms)
    return line_figure(
        {
            "measured": Line(x=alarms, y=missed, lower=low, upper=high),
            "least allowed by the claim": Line(x=alarms, y=claimed),
            "no information": Line(x=alarms, y=1.0 - alarms),
        },
        x_label="false alarms of the attacker",
        y_label="records the attacker misses",
    )
