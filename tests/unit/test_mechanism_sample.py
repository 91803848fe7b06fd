"""The secret sample: its law, and what it is bound to. False alarms below 1e-6 each."""

import math
from typing import cast

import numpy as np
import pytest
from scipy.stats import binom

from dpstream.errors import ConfigurationError
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.poisson_sample import poisson_sample

NOISE = Noise.insecure(3)
DIGEST = NOISE.bind(np.arange(3))
COUNT = 20_000


@pytest.mark.parametrize("rate", [1e-3, 0.2, 0.5, 0.999])
def test_every_record_takes_part_with_the_rate(rate: float) -> None:
    taken = int(poisson_sample(COUNT, rate, address=(1,), digest=DIGEST, noise=NOISE).sum())
    assert binom.cdf(taken, COUNT, rate) > 1e-6 / 2
    assert binom.sf(taken - 1, COUNT, rate) > 1e-6 / 2


def test_words_below_the_rate_take_part() -> None:
    rate = 0.3
    stream = NOISE.stream((1,), DIGEST, purpose=("poisson sample", str(rate)))
    words = stream.words(COUNT)
    taken = poisson_sample(COUNT, rate, address=(1,), digest=DIGEST, noise=NOISE)
    assert (taken == (words < np.uint64(math.floor(rate * 2.0**64)))).all()


def test_a_sample_is_bound_to_its_address_its_batch_and_its_rate() -> None:
    def sample(rate: float = 0.5, address: int = 1, digest: bytes = DIGEST) -> list[bool]:
        return poisson_sample(200, rate, address=(address,), digest=digest, noise=NOISE).tolist()

    assert sample() == sample()
    others = [sample(address=2), sample(digest=NOISE.bind(np.arange(4))), sample(rate=0.5 + 1e-12)]
    # Two independent samples agree in all 200 places with probability 2^-200.
    assert all(other != sample() for other in others)


def test_everybody_takes_part_at_rate_one_and_wrong_rates_are_refused() -> None:
    assert poisson_sample(5, 1.0, address=(1,), digest=DIGEST, noise=NOISE).tolist() == [True] * 5
    assert poisson_sample(0, 0.5, address=(1,), digest=DIGEST, noise=NOISE).size == 0
    for rate in (0.0, -0.1, 1.0000001, math.nan):
        with pytest.raises(ConfigurationError, match="sampling rate"):
            poisson_sample(5, rate, address=(1,), digest=DIGEST, noise=NOISE)


class _Words:
    """A noise source whose words are given."""

    def __init__(self, words: list[int]) -> None:
        self._words = np.array(words, np.uint64)

    def stream(self, address: tuple[int, ...], digest: bytes, *, purpose: object) -> "_Words":
        return self

    def words(self, count: int) -> np.ndarray:
        return self._words[:count]


def test_the_word_at_the_rate_itself_takes_no_part() -> None:
    # Of 2^64 words exactly floor(rate 2^64) lie below the bound: one more would exceed the rate.
    bound = 3 << 61
    noise = cast(Noise, _Words([bound - 1, bound, bound + 1]))
    taken = poisson_sample(3, 0.375, address=(1,), digest=DIGEST, noise=noise)
    assert taken.tolist() == [True, False, False]
