"""Writes privacy_vectors.json: reference values in 60-digit arithmetic and by dp-accounting.

Run ``python tests/vectors/generate_privacy_vectors.py`` from anywhere; it takes a minute. The
values depend on no code of this package. Versions of what made them are in the file.
"""

import json
from importlib.metadata import version
from pathlib import Path

import mpmath as mp
from dp_accounting.pld import privacy_loss_distribution as pld

mp.mp.dps = 60
DIGITS = 25

# Corners, the diagonal where delta is neither 0 nor 1, and far tails that floats still hold.
SHIFTS = ["0.0001", "0.003", "0.05", "0.25", "0.5", "1", "2", "3.7", "8", "20", "31.5", "100"]
EPSILONS = ["0", "1e-6", "0.001", "0.1", "0.5", "1", "2", "8", "30", "120", "500"]
BUDGETS = [("1", "1e-6"), ("0.5", "1e-6"), ("2", "1e-6"), ("8", "1e-6"), ("0.01", "1e-9")]
RESPONSES = [("1", 4), ("0.1", 100), ("0.01", 2000), ("0.003", 30000)]


def phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def gaussian_delta(mu, epsilon):
    return phi(mu / 2 - epsilon / mu) - mp.exp(epsilon) * phi(-mu / 2 - epsilon / mu)


def gaussian_mu(epsilon, delta):
    """By bisection, which needs no starting point."""
    lower, upper = mp.mpf("1e-6"), mp.mpf(100)
    for _ in range(180):
        middle = (lower + upper) / 2
        if gaussian_delta(middle, epsilon) <= delta:
            lower = middle
        else:
            upper = middle
    return lower


def zcdp_delta(rho, epsilon):
    """The conversion's minimum over orders, by ternary search on its convex exponent."""

    def exponent(alpha):
        shrink = alpha * mp.log(1 - 1 / alpha) - mp.log(alpha - 1)
        return (alpha - 1) * (alpha * rho - epsilon) + shrink

    lower, upper = mp.mpf("1.0001"), 10 * (epsilon / rho + 10)
    for _ in range(300):
        third = (upper - lower) / 3
        if exponent(lower + third) < exponent(upper - third):
            upper -= third
        else:
            lower += third
    return mp.exp(exponent(lower))


def zcdp_rho(epsilon, delta):
    lower, upper = mp.mpf("1e-12"), mp.mpf(10)
    for _ in range(120):
        middle = (lower + upper) / 2
        if zcdp_delta(middle, epsilon) <= delta:
            lower = middle
        else:
            upper = middle
    return lower


def response_delta(response, count, epsilon):
    """The composition of ``count`` randomised responses, outcome by outcome."""
    truth = 1 / (1 + mp.exp(-response))
    total = mp.mpf(0)
    for lies in range(count + 1):
        loss = (count - 2 * lies) * response
        if loss <= epsilon:
            break
        weight = mp.binomial(count, lies) * truth ** (count - lies) * (1 - truth) ** lies
        total += weight * (1 - mp.exp(epsilon - loss))
    return total


def accountant_epsilon(mu, delta):
    distribution = pld.from_gaussian_mechanism(
        1.0 / float(mu), value_discretization_interval=1e-4, pessimistic_estimate=True
    )
    return distribution.get_epsilon_for_delta(float(delta))


def text(value):
    return mp.nstr(value, DIGITS)


def main():
    deltas = []
    for mu in SHIFTS:
        diagonal = [mp.nstr(mp.mpf(mu) ** 2 / 2 + mp.mpf(mu) * z, 12) for z in (-2, 1, 4.7, 15, 36)]
        for epsilon in EPSILONS + [e for e in diagonal if 0 <= mp.mpf(e) <= 500]:
            # The floats nearest to these decimals are the arguments, not the decimals.
            value = gaussian_delta(mp.mpf(float(mu)), mp.mpf(float(epsilon)))
            if value > mp.mpf("1e-300"):
                deltas.append({"mu": mu, "epsilon": epsilon, "delta": text(value)})
    calibrations = [
        {
            "epsilon": epsilon,
            "delta": delta,
            "mu": text(gaussian_mu(mp.mpf(float(epsilon)), mp.mpf(float(delta)))),
            "rho": text(zcdp_rho(mp.mpf(float(epsilon)), mp.mpf(float(delta)))),
        }
        for epsilon, delta in BUDGETS
    ]
    responses = []
    for response, count in RESPONSES:
        value = mp.mpf(float(response))
        deviation = value * mp.sqrt(count)
        for epsilon in (deviation, 3 * deviation):
            rounded = mp.nstr(epsilon, 8)
            delta = response_delta(value, count, mp.mpf(float(rounded)))
            responses.append(
                {"pure": response, "count": count, "epsilon": rounded, "delta": text(delta)}
            )
    accountant = [
        {"mu": mu, "delta": delta, "epsilon": repr(accountant_epsilon(mu, delta))}
        for mu in ("0.05", "0.25", "1", "3.7")
        for delta in ("1e-5", "1e-9")
    ]
    contents = {
        "versions": {"mpmath": version("mpmath"), "dp-accounting": version("dp-accounting")},
        "gaussian_delta": deltas,
        "calibration": calibrations,
        "response_delta": responses,
        "accountant_gaussian_epsilon": accountant,
    }
    path = Path(__file__).with_name("privacy_vectors.json")
    path.write_text(json.dumps(contents, indent=1) + "\n")


if __name__ == "__main__":
    main()
