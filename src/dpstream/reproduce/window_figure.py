"""What the panels of paper 003's figures 4 and 5 show, and ours beside them.

The paper's settings on digits are epsilon = 0.1 and lambda = 1 on 784 pixels, B = 8 b0, b0 = 1024.
With noise for the true worst record that is a negative result, so the trends are shown with fixed
edge features at epsilon = 1 and smaller penalties. Ridges of "ours" were chosen on scikit-learn's
digits, enlarged and shifted, never on the images used here: anything from 0.006 to 0.02 was as
good for a window, 0.02 with updates of 0.1 to 0.3 for chains.
"""

from collections.abc import Sequence

from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.decayed_release import DecayedRelease
from dpstream.reproduce.labelled_stream import Make
from dpstream.reproduce.printed_window import SLIDING_NOISE, cumulative_noise
from dpstream.reproduce.window_panel import Curve, Panel, basic, cumulative, sliding

BLOCK = 1024
WINDOW_BLOCKS = 7
BASE_BLOCKS = 8
EVEN_BLOCK = 1000
EVEN_BLOCKS = 20
"""So that the last block ends at 20,000 records."""

TITLE_BLOCK = 512
TITLE_BASE = 4


def decayed(decay: float, *, block: int, ridge: float) -> Make:
    """Exponential forgetting."""
    return lambda stream, budget: DecayedRelease(
        decay=decay, ridge=ridge, **stream.settings(budget, block_records=block, horizon=None)
    )


def refitted(
    base: int, *, block: int, ridge: float, horizon: int | None, tilt: float = 0.5
) -> Make:
    """All data again after every block, quieter the more there are.

    A tilt of 0.5 needs a horizon: its costs have no bounded sum.
    """
    return lambda stream, budget: ContinualRelease(
        base=base,
        updates="refit",
        ridge=ridge,
        tilt=tilt,
        **stream.settings(budget, block_records=block, horizon=horizon),
    )


OUR_SLIDING = sliding(WINDOW_BLOCKS, block=BLOCK, ridge=0.01)
OUR_CUMULATIVE = refitted(BASE_BLOCKS, block=EVEN_BLOCK, ridge=0.01, horizon=EVEN_BLOCKS)
_ENDLESS = refitted(BASE_BLOCKS, block=EVEN_BLOCK, ridge=0.01, horizon=None, tilt=0.3)
_CHAINS = sliding(WINDOW_BLOCKS, block=BLOCK, ridge=0.02, refresh=None, update=0.3, tilt=0.4)
_ALONE = sliding(1, block=BLOCK, ridge=0.01)


def _digits(penalty: float, *, block: int = BLOCK) -> Make:
    return cumulative(BASE_BLOCKS, block=block, penalty=penalty)


def _titles(penalty: float) -> Make:
    return cumulative(TITLE_BASE, block=TITLE_BLOCK, penalty=penalty)


_DIGIT_NOISE = cumulative_noise(BASE_BLOCKS)
_TITLE_NOISE = cumulative_noise(TITLE_BASE)
_PAPER = _digits(1.0)
_PURE = cumulative(BASE_BLOCKS, block=BLOCK, penalty=1.0, noise="spherical_laplace")

PANELS: Sequence[Panel] = (
    Panel(
        name="4a",
        title="digits, cumulative, by epsilon: the paper's settings",
        curves=(
            Curve(name="pure, 0.1, pixels", stream="pixels", make=_PURE, epsilon=0.1, delta=0.0),
            Curve(name="0.1, pixels", stream="pixels", make=_PAPER, epsilon=0.1),
            Curve(name="1, pixels", stream="pixels", make=_PAPER),
            Curve(name="1, edges", stream="edges", make=_PAPER),
            Curve(
                name="pure, 0.1, 64 random projections",
                stream="projected",
                make=_PURE,
                epsilon=0.1,
                delta=0.0,
            ),
            Curve(name="0.1, 64 random projections", stream="projected", make=_PAPER, epsilon=0.1),
            Curve(
                name="0.1, edges, all refitted",
                stream="edges",
                make=refitted(BASE_BLOCKS, block=EVEN_BLOCK, ridge=2.0, horizon=EVEN_BLOCKS),
                epsilon=0.1,
            ),
            Curve(name="no noise, pixels", stream="pixels", make=_PAPER, epsilon=None),
            Curve(
                name="as printed, 0.1, pixels",
                stream="pixels",
                make=_PAPER,
                epsilon=0.1,
                printed=_DIGIT_NOISE,
            ),
        ),
        rising=False,
    ),
    Panel(
        name="4a-features",
        title="digits, cumulative, epsilon = 1, lambda = 0.05: what fixed features buy back",
        curves=(
            Curve(name="pixels (7840 parameters)", stream="pixels", make=_digits(0.05)),
            Curve(name="64 random projections (640)", stream="projected", make=_digits(0.05)),
            Curve(name="edges (3920)", stream="edges", make=_digits(0.05)),
        ),
        rising=False,
    ),
    Panel(
        name="4b",
        title="digits, cumulative, epsilon = 0.3, by lambda",
        curves=tuple(
            Curve(name=f"lambda {penalty:g}", stream="edges", make=_digits(penalty), epsilon=0.3)
            for penalty in (0.02, 0.1, 0.5)
        ),
    ),
    Panel(
        name="4c",
        title="digits, cumulative, epsilon = 1, lambda = 0.05, by b0 (B = 8 b0)",
        curves=tuple(
            Curve(name=f"b0 {block}", stream="edges", make=_digits(0.05, block=block))
            for block in (256, 512, 1024)
        ),
    ),
    Panel(
        name="4d",
        title="digits, epsilon = 1, against each block by itself, b0 = 512",
        curves=(
            Curve(
                name="each block by itself",
                stream="edges",
                make=sliding(1, block=512, ridge=0.1),
            ),
            Curve(name="continual release", stream="edges", make=_digits(0.05, block=512)),
        ),
    ),
    Panel(
        name="4e",
        title="titles, cumulative, lambda = 10, by epsilon",
        curves=(
            Curve(name="0.1", stream="titles", make=_titles(10.0), epsilon=0.1),
            Curve(name="1", stream="titles", make=_titles(10.0)),
            Curve(name="10", stream="titles", make=_titles(10.0), epsilon=10.0),
            Curve(
                name="as printed, 1",
                stream="titles",
                make=_titles(10.0),
                printed=_TITLE_NOISE,
                penalty=10.0,
            ),
        ),
        rising=False,
    ),
    Panel(
        name="4f",
        title="titles, cumulative, epsilon = 1, by lambda",
        curves=tuple(
            Curve(name=f"lambda {penalty:g}", stream="titles", make=_titles(penalty))
            for penalty in (0.02, 0.2, 10.0)
        ),
    ),
    Panel(
        name="4g",
        title="digits, sliding window of 7 x 1024, by epsilon",
        records=9 * BLOCK,
        curves=(
            *(
                Curve(name=f"{epsilon:g}", stream="edges", make=OUR_SLIDING, epsilon=epsilon)
                for epsilon in (0.25, 0.5, 1.0, 2.0)
            ),
            Curve(name="no noise", stream="edges", make=OUR_SLIDING, epsilon=None),
        ),
    ),
    Panel(
        name="4g-rules",
        title="digits, epsilon = 1, memories of recent images",
        records=12 * BLOCK,
        curves=(
            Curve(name="each block by itself", stream="edges", make=_ALONE),
            Curve(
                name="chains, equal noise (paper)",
                stream="edges",
                make=sliding(WINDOW_BLOCKS, block=BLOCK, ridge=0.05, refresh=None),
            ),
            Curve(name="chains, quieter bases", stream="edges", make=_CHAINS),
            Curve(
                name="decayed, 0.75", stream="edges", make=decayed(0.75, block=BLOCK, ridge=0.01)
            ),
            Curve(name="window refitted", stream="edges", make=OUR_SLIDING),
            Curve(
                name="chains as printed, lambda 1, pixels",
                stream="pixels",
                make=sliding(WINDOW_BLOCKS, block=BLOCK, ridge=2.0, refresh=None),
                printed=SLIDING_NOISE,
            ),
        ),
        rising=False,
    ),
    Panel(
        name="4h",
        title="titles, sliding window of 7 x 256, by epsilon",
        curves=tuple(
            Curve(
                name=f"{epsilon:g}",
                stream="titles",
                make=sliding(WINDOW_BLOCKS, block=256, ridge=0.02),
                epsilon=epsilon,
            )
            for epsilon in (0.5, 2.0, 8.0)
        ),
    ),
    Panel(
        name="4i",
        title="digits, sliding window of 7 x w0, epsilon = 1, by w0",
        records=9 * BLOCK,
        curves=tuple(
            Curve(
                name=f"w0 {block}",
                stream="edges",
                make=sliding(WINDOW_BLOCKS, block=block, ridge=0.01),
            )
            for block in (256, 512, 1024)
        ),
    ),
    Panel(
        name="4-cumulative",
        title="digits, cumulative, epsilon = 1: ours",
        curves=(
            Curve(
                name="basic, lambda 0.05",
                stream="edges",
                make=basic(BASE_BLOCKS, block=BLOCK, penalty=0.05),
            ),
            Curve(name="doubling, lambda 0.05", stream="edges", make=_digits(0.05)),
            Curve(name="all refitted, for ever", stream="edges", make=_ENDLESS),
            Curve(name="all refitted, quieter with size", stream="edges", make=OUR_CUMULATIVE),
            Curve(name="all refitted, no noise", stream="edges", make=OUR_CUMULATIVE, epsilon=None),
            Curve(
                name="all refitted, no noise, pixels",
                stream="pixels",
                make=OUR_CUMULATIVE,
                epsilon=None,
            ),
        ),
        rising=False,
    ),
    Panel(
        name="5a",
        title="digits, basic release, lambda = 10, by epsilon",
        curves=tuple(
            Curve(
                name=f"{epsilon:g}",
                stream="edges",
                make=basic(BASE_BLOCKS, block=BLOCK, penalty=10.0),
                epsilon=epsilon,
            )
            for epsilon in (0.1, 1.0, 10.0)
        ),
    ),
    Panel(
        name="5b",
        title="digits, basic release, epsilon = 1, by lambda",
        curves=(
            *(
                Curve(
                    name=f"lambda {penalty:g}",
                    stream="edges",
                    make=basic(BASE_BLOCKS, block=BLOCK, penalty=penalty),
                )
                for penalty in (0.0005, 0.005, 0.05, 10.0)
            ),
            Curve(
                name="lambda 10, no noise",
                stream="edges",
                make=basic(BASE_BLOCKS, block=BLOCK, penalty=10.0),
                epsilon=None,
            ),
        ),
        rising=False,
    ),
)
