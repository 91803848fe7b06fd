"""Paper 003's figures 4 and 5 with the noise as printed, beside ours: none of this is private.

The same settings as the panels of ``window_figure.py`` where these follow the paper; windows are
the paper's chains of buckets at its penalties, lambda = 1 on digits and 10 on titles. The last
panel has the sampling variants (Algorithms 6 to 8).
"""

from collections.abc import Sequence

from dpstream.reproduce.labelled_stream import Make
from dpstream.reproduce.printed_window import (
    SAMPLED_SLIDING_NOISE,
    SLIDING_NOISE,
    PrintedNoise,
    cumulative_noise,
)
from dpstream.reproduce.window_figure import (
    BASE_BLOCKS,
    BLOCK,
    TITLE_BASE,
    TITLE_BLOCK,
    WINDOW_BLOCKS,
)
from dpstream.reproduce.window_panel import Curve, Panel, basic, cumulative, sliding

_DIGITS = cumulative_noise(BASE_BLOCKS)
_TITLES = cumulative_noise(TITLE_BASE)
_SAMPLED = cumulative_noise(BASE_BLOCKS, sampled=True)


def _panel(name: str, title: str, curves: Sequence[Curve], *, records: int | None = None) -> Panel:
    return Panel(
        name=f"{name}-printed",
        title=f"{title}: as printed, not private",
        curves=curves,
        rising=False,
        records=records,
    )


def _curve(
    name: str,
    make: Make,
    noise: PrintedNoise,
    *,
    penalty: float,
    epsilon: float = 1.0,
    stream: str = "edges",
) -> Curve:
    return Curve(
        name=name, stream=stream, make=make, printed=noise, penalty=penalty, epsilon=epsilon
    )


def _digits(penalty: float, block: int = BLOCK) -> Make:
    return cumulative(BASE_BLOCKS, block=block, penalty=penalty)


def _window(penalty: float, block: int = BLOCK) -> Make:
    return sliding(WINDOW_BLOCKS, block=block, ridge=2.0 * penalty, refresh=None)


PRINTED_PANELS: Sequence[Panel] = (
    _panel(
        "4b",
        "digits, cumulative, epsilon = 0.3, by lambda",
        [
            _curve(f"lambda {penalty:g}", _digits(penalty), _DIGITS, penalty=penalty, epsilon=0.3)
            for penalty in (0.02, 0.1, 0.5)
        ],
    ),
    _panel(
        "4c",
        "digits, cumulative, epsilon = 1, lambda = 0.05, by b0",
        [
            _curve(f"b0 {block}", _digits(0.05, block), _DIGITS, penalty=0.05)
            for block in (256, 512, 1024)
        ],
    ),
    _panel(
        "4d",
        "digits, epsilon = 1, lambda = 0.05, against each block by itself, b0 = 512",
        [
            _curve(
                "each block by itself",
                sliding(1, block=512, ridge=0.1),
                PrintedNoise(base=4.0, update=4.0),
                penalty=0.05,
            ),
            _curve("continual release", _digits(0.05, 512), _DIGITS, penalty=0.05),
        ],
    ),
    _panel(
        "4f",
        "titles, cumulative, epsilon = 1, by lambda",
        [
            _curve(
                f"lambda {penalty:g}",
                cumulative(TITLE_BASE, block=TITLE_BLOCK, penalty=penalty),
                _TITLES,
                penalty=penalty,
                stream="titles",
            )
            for penalty in (0.02, 0.2, 10.0)
        ],
    ),
    _panel(
        "4g",
        "digits, sliding window of 7 x 1024, lambda = 1, by epsilon",
        [
            _curve(f"{epsilon:g}", _window(1.0), SLIDING_NOISE, penalty=1.0, epsilon=epsilon)
            for epsilon in (0.25, 0.5, 1.0, 2.0)
        ],
        records=9 * BLOCK,
    ),
    _panel(
        "4h",
        "titles, sliding window of 7 x 256, lambda = 10, by epsilon",
        [
            _curve(
                f"{epsilon:g}",
                _window(10.0, 256),
                SLIDING_NOISE,
                penalty=10.0,
                epsilon=epsilon,
                stream="titles",
            )
            for epsilon in (0.5, 2.0, 8.0)
        ],
    ),
    _panel(
        "4i",
        "digits, sliding window of 7 x w0, epsilon = 1, lambda = 1, by w0",
        [
            _curve(f"w0 {block}", _window(1.0, block), SLIDING_NOISE, penalty=1.0)
            for block in (256, 512, 1024)
        ],
        records=9 * BLOCK,
    ),
    _panel(
        "5a",
        "digits, basic release, lambda = 10, by epsilon",
        [
            _curve(
                f"{epsilon:g}",
                basic(BASE_BLOCKS, block=BLOCK, penalty=10.0),
                _DIGITS,
                penalty=10.0,
                epsilon=epsilon,
            )
            for epsilon in (0.1, 1.0, 10.0)
        ],
    ),
    _panel(
        "5b",
        "digits, basic release, epsilon = 1, by lambda",
        [
            _curve(
                f"lambda {penalty:g}",
                basic(BASE_BLOCKS, block=BLOCK, penalty=penalty),
                _DIGITS,
                penalty=penalty,
            )
            for penalty in (0.0005, 0.005, 0.05, 10.0)
        ],
    ),
    _panel(
        "sampling",
        "digits, epsilon = 1, lambda = 0.05, with the paper's sampling and without",
        [
            _curve("cumulative (Algorithm 4)", _digits(0.05), _DIGITS, penalty=0.05),
            _curve("sampled cumulative (Algorithms 6 to 8)", _digits(0.05), _SAMPLED, penalty=0.05),
            _curve("window (Algorithm 5)", _window(0.05), SLIDING_NOISE, penalty=0.05),
            _curve("sampled window", _window(0.05), SAMPLED_SLIDING_NOISE, penalty=0.05),
        ],
    ),
)
