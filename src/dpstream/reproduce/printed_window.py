"""Paper 003's releases with the noise as printed: for comparison, and not private.

Independent Laplace noise on every parameter. In Algorithm 5 its scale is ``6 L / (lambda 2^J w0
epsilon)`` for the base and ``12 L / (lambda w0 epsilon)`` for the others; in Algorithm 4 ``4 L /
(lambda B epsilon)`` for bases and ``4 L / (lambda b0 epsilon)`` for updates. L is that of the
experiments, ``(k - 1) / (2 m k) |X|_F``, computed from the m records of the fit.
That L falls with ``1 / sqrt(m)`` where a record's gradient does not, so that the noise is far below
what a record can move; and independent Laplace noise on d parameters does not protect a shift of
bounded Euclidean length. Nothing made here may be shown of data that are not public.

Algorithms 6 to 8 sample: a fit of ``2^k`` times the smallest size uses about ``2^-k`` of its
records and divides the noise by ``2^k``, as if it had used them all. That costs a sampled record
``2^k`` times what is claimed before sampling (``sampled_release.py``), so that these variants exist
here alone.
"""

import math
from dataclasses import dataclass, replace

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
        sampled: Algorithms 6 to 8: larger fits sample their records, and divide the noise by
            all of them.
    """

    base: float
    update: float
    base_blocks: int | None = None
    sampled: bool = False

    def part(self, fit: Fit, *, based: bool, size: int, epsilon: float) -> tuple[float, float]:
        """The chance of a record to be used, and by what the constant times L is divided.

        Args:
            fit: which blocks.
            based: whether it is a base.
            size: records of a block.
            epsilon: what the paper claims for all fits together.
        """
        smallest = (self.base_blocks or fit.size) if based else 1
        if not self.sampled or fit.size <= smallest:
            return 1.0, float(smallest * size)
        level = math.log2(fit.size / smallest)
        chance = math.expm1(epsilon / 2.0 ** (level + 1.0)) / math.expm1(epsilon / 2.0)
        return chance, float(fit.size * size)


SLIDING_NOISE = PrintedNoise(base=6.0, update=12.0)
"""Algorithm 5."""


SAMPLED_SLIDING_NOISE = PrintedNoise(base=6.0, update=12.0, sampled=True)
"""Algorithm 5 with its updates sampled ("Fine-Tuning Sampling")."""


def cumulative_noise(base_blocks: int, *, sampled: bool = False) -> PrintedNoise:
    """Algorithms 2 to 4, with B in blocks; Algorithms 6 to 8 with ``sampled``.

    Algorithm 8 updates at ``t = 2^j b0``, which never comes between bases if ``B / b0`` is a power
    of two; like Algorithm 4 it counts from the last base here.
    """
    return PrintedNoise(base=4.0, update=4.0, base_blocks=base_blocks, sampled=sampled)


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
            chance, divisor = noise.part(fit, based=not stack, size=size, epsilon=epsilon)
            rows = batch.rows[fit.start * size : fit.end * size]
            if chance < 1.0:
                rows = rows[generator.permutation(len(rows))[: math.ceil(chance * len(rows))]]
            part = Batch(rows, batch.dimension)
            problem = replace(solver.problem(fit.size), records=len(part))
            centre = stack[-1][1] if stack else np.zeros(solver.dimension)
            tolerance = solver.plan(fit.size, modulus).tolerance
            target = Target(problem=problem, modulus=modulus, centre=solver.ball.project(centre))
            point = minimise(target, part, tolerance=tolerance).point
            length = float(np.linalg.norm(part.scaled_features))
            slope = (classes - 1.0) / (2.0 * len(part) * classes) * length
            constant = noise.update if stack else noise.base
            scale = constant * slope / (penalty * divisor * epsilon)
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
