"""Paper 003's releases with the noise as printed: for comparison, and not private.

Independent Laplace noise on every parameter. In Algorithm 5 its scale is ``6 L / (lambda 2^J w0
epsilon)`` for the base and ``12 L / (lambda w0 epsilon)`` for the others; in Algorithm 4 ``4 L /
(lambda B epsilon)`` for bases and ``4 L / (lambda b0 epsilon)`` for updates. L is that of the
experiments, ``(k - 1) / (2 m k) |X|_F``, computed from the m records of the fit.
That L falls with ``1 / sqrt(m)`` where a record's gradient does not, so that the noise is far below
what a record can move; and independent Laplace noise on d parameters does not protect a shift of
bounded Euclidean length. Nothing made here may be shown of data that are not public.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.learners.window.bucket import BucketRule, Fit
from dpstream.learners.window.fit import BlockSolver
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.mechanisms.public import public_generator
from dpstream.solvers.minimiser import Target, minimise

MARK = "not private"


@dataclass(frozen=True, kw_only=True)
class PrintedRun:
    """One run with printed noise.

    Attributes:
        blocks: after which blocks there was a model.
        points: the models, one row each.
        epsilon_at_least: what a single one of its fits really costs some record at least.
    """

    blocks: tuple[int, ...]
    points: FloatArray
    epsilon_at_least: float


@dataclass(frozen=True, kw_only=True)
class PrintedNoise:
    """The scales of one algorithm, ``factor L / (lambda records epsilon)``.

    Attributes:
        base: the factor of bases.
        update: the factor of other fits, over a block's records.
        base_blocks: blocks of a base's records; None for those that it uses.
    """

    base: float
    update: float
    base_blocks: int | None = None


SLIDING_NOISE = PrintedNoise(base=6.0, update=12.0)
"""Algorithm 5."""


def cumulative_noise(base_blocks: int) -> PrintedNoise:
    """Algorithms 2 to 4, with B in blocks."""
    return PrintedNoise(base=4.0, update=4.0, base_blocks=base_blocks)


def printed_run(
    solver: BlockSolver,
    rule: BucketRule,
    batch: Batch,
    *,
    noise: PrintedNoise,
    penalty: float,
    epsilon: float,
    seed: int,
) -> PrintedRun:
    """Run a rule as printed over whole blocks.

    Args:
        solver: tells the loss, the bounds and the block; its noise is not used.
        rule: which blocks are fitted when.
        batch: the stream.
        noise: the printed scales.
        penalty: the paper's lambda, of ``lambda |theta|^2``.
        epsilon: what the paper claims.
        seed: of the noise, which anyone can recompute.

    Raises:
        ConfigurationError: if the loss is not softmax, whose printed L this is.
    """
    if not isinstance(solver.loss, SoftmaxLoss):
        raise ConfigurationError("the printed L is softmax regression's; take that loss")
    classes, generator = solver.loss.classes, public_generator(seed)
    size, modulus = solver.block_records, 2.0 * penalty
    stack: list[tuple[Fit, FloatArray]] = []
    blocks: list[int] = []
    points: list[FloatArray] = []
    least = 0.0
    for closed in range(rule.first, len(batch) // size + 1):
        step = rule.step(closed)
        stack = stack[: step.keep]
        for fit in step.fits:
            part = Batch(batch.rows[fit.start * size : fit.end * size], batch.dimension)
            problem = solver.problem(fit.size)
            centre = stack[-1][1] if stack else np.zeros(solver.dimension)
            tolerance = solver.plan(fit.size, modulus).tolerance
            target = Target(problem=problem, modulus=modulus, centre=solver.ball.project(centre))
            point = minimise(target, part, tolerance=tolerance).point
            length = float(np.linalg.norm(part.scaled_features))
            slope = (classes - 1.0) / (2.0 * len(part) * classes) * length
            constant, records = noise.update, size
            if not stack:
                constant, records = noise.base, (noise.base_blocks or fit.size) * size
            scale = constant * slope / (penalty * records * epsilon)
            stack.append((fit, point + generator.laplace(0.0, scale, solver.dimension)))
            # At any point some class has a chance of at most 1/k. A record of length 1 in it has
            # a gradient of at least sqrt(1 - 1/k), and the average's Hessian is at most
            # gamma + 1/2. Independent Laplace noise charges for the L1 length, at least the L2 one.
            shift = math.sqrt(1.0 - 1.0 / classes) / ((modulus + 0.5) * len(part))
            least = max(least, shift / scale)
        if step.forget:
            stack = stack[-1:]
        blocks.append(closed)
        points.append(stack[-1][1])
    return PrintedRun(blocks=tuple(blocks), points=np.array(points), epsilon_at_least=least)
