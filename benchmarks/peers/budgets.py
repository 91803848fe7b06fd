# pyright: basic, reportMissingImports=false
# (runs in the peers' environment, which the project's type checker does not see)
"""What becomes of a budget in other libraries: each question is asked by doing it."""

import pickle
import warnings
from importlib.metadata import version

import numpy as np


def diffprivlib_answers() -> dict[str, str]:
    from diffprivlib import BudgetAccountant
    from diffprivlib.models import LogisticRegression
    from sklearn.base import clone

    x = np.sin(np.arange(1500.0)).reshape(500, 3)
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    y = (x[:, 0] > 0.0).astype(int)
    answers = {}
    free = LogisticRegression(epsilon=1.0, data_norm=1.0)
    for _ in range(5):
        free.fit(x, y)
    answers["five fits of one model"] = f"epsilon {free.accountant.total()[0]:g} in all, no limit"
    copies = {
        "cloned before the fit": clone,
        "pickled before the fit": lambda model: pickle.loads(pickle.dumps(model)),
    }
    for words, copy in copies.items():
        model = LogisticRegression(
            epsilon=1.0, data_norm=1.0, accountant=BudgetAccountant(epsilon=1.0, delta=0.0)
        )
        other = copy(model)
        spent = []
        for each in (model, other):
            each.fit(x, y)
            spent.append(f"{each.accountant.total()[0]:g}")
        shared = other.accountant is model.accountant
        answers[words] = f"both fit; accountants say {' and '.join(spent)}; shared: {shared}"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        LogisticRegression(epsilon=1.0).fit(x, y)
    said = [str(item.message) for item in told if "norm" in str(item.message)]
    answers["no norm declared"] = f"fits, and warns: {said[0][:75]}..."
    return answers


def opendp_answers() -> dict[str, str]:
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    compositor = dp.Context.compositor(
        data=[1.0] * 100,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=0.5),
        split_evenly_over=2,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    )
    try:
        pickle.dumps(compositor)
        kept = "can be pickled"
    except Exception as error:
        kept = f"cannot be pickled: {error}"
    parts = [*dir(dp.m), *dir(dp.t)]
    found = [name for name in parts if "continual" in name or "stream" in name]
    return {"a compositor, to be kept": kept, "parts for streams": ", ".join(found) or "none"}


def jax_privacy_answers() -> dict[str, str]:
    import jax
    import jax.numpy as jnp
    from jax_privacy import noise_addition
    from jax_privacy.matrix_factorization import buffered_toeplitz

    jax.config.update("jax_enable_x64", True)
    strategy = buffered_toeplitz.optimize(n=10, max_participations=1)
    privatizer = noise_addition.matrix_factorization_privatizer(
        strategy.inverse_as_streaming_matrix(), stddev=1.0, prng_key=0
    )
    state = privatizer.init(jnp.zeros(1))
    for _ in range(30):
        _, state = privatizer.update(jnp.zeros(1), state)
    return {"30 steps of a mechanism optimised for 10": "no error, no warning"}


def main() -> None:
    for library, answer in (
        ("diffprivlib", diffprivlib_answers),
        ("opendp", opendp_answers),
        ("jax-privacy", jax_privacy_answers),
    ):
        print(f"{library} {version(library)}")
        for question, found in answer().items():
            print(f"  {question}: {found}")


if __name__ == "__main__":
    main()
