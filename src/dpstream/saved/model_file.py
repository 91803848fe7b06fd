"""One file for a released model: JSON and plain arrays in a zip, no pickle.

``model.json`` says how to predict, what was released and promised, and the SHA-256 of every array;
its own digest covers the rest of it. Damage and careless edits are found by digests and by
recomputing the card from the ledger; somebody who forges the whole file is found by comparing its
digest with one that came another way (``load_model(path, digest=...)``).

``examples/read_model.py`` reads the format without this package; ``FORMAT`` changes whenever that
script would have to.
"""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import dpstream
from dpstream.arrays import FloatArray
from dpstream.domain.column import OTHER, Categorical
from dpstream.domain.domain import Domain
from dpstream.engine.publication import from_line, to_line
from dpstream.errors import ConfigurationError, DpstreamError, ModelFileError, require_path
from dpstream.privacy.ledger import LedgerRow
from dpstream.saved.saved_model import SavedModel
from dpstream.saved.score_model import LINKS, ScoreModel

FORMAT = 1
"""The version of the file's schema."""

_KIND = "dpstream model"
_JSON = "model.json"
_ARRAYS = ("coefficients", "intercepts")
_LARGEST = 1 << 30
"""No part of a model is larger: what says it is, is not read."""


def save_model(model: SavedModel, path: str | os.PathLike[str]) -> str:
    """Write a model to one file, as a whole or not at all.

    Args:
        model: what to save; an estimator's is ``estimator.saved_model()``.
        path: of the file, replaced if it is there.

    Returns:
        The model's digest, for ``load_model``.

    Raises:
        ModelFileError: if it cannot be written.
    """
    if not isinstance(model, SavedModel):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is checked
        raise ConfigurationError(
            f"save_model got {type(model).__name__}; hand it estimator.saved_model(), or call "
            "estimator.save(path)"
        )
    arrays = {
        "coefficients": _npy(model.scores.coefficients),
        "intercepts": _npy(model.scores.intercepts),
    }
    content = _content(model, arrays)
    digest = content["digest"] = _digest(content)
    target = model_path(path)
    aside = target.with_name(f".{target.name}.new")
    try:
        with zipfile.ZipFile(aside, "w") as archive:
            text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
            for name, data in {_JSON: text.encode(), **_files(arrays)}.items():
                # A date of its own would make the same model other bytes.
                archive.writestr(zipfile.ZipInfo(name), data)
        aside.replace(target)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise ModelFileError(
            f"{target} cannot be written ({error.strerror}); name a file in a folder that exists "
            "and can be written"
        ) from None
    return digest


def load_model(path: str | os.PathLike[str], *, digest: str | None = None) -> SavedModel:
    """Read a saved model and check it: arrays, digests, and the card against the ledger.

    Args:
        path: of the file.
        digest: what ``save_model`` gave, if it is known from elsewhere; then a file that was
            forged as a whole is found too.

    Raises:
        ModelFileError: if it is absent, damaged, altered, or of another version.
    """
    name = str(path)
    parts = _parts(model_path(path), name)
    content = _read_json(parts.get(_JSON), name)
    _check_version(content, name)
    try:
        stated = content.pop("digest", None)
        if stated != _digest(content):
            raise ModelFileError(f"{name} does not match its digest: it was altered; {_AGAIN}")
        if digest is not None and digest != stated:
            raise ModelFileError(
                f"{name} has digest {stated}, not the {digest} that was asked for: it is another "
                "model, or was forged"
            )
        arrays = {key: _array(content["arrays"][key], key, parts, name) for key in _ARRAYS}
        model = _model(content, arrays)
        if json.loads(json.dumps(model.card.to_json())) != content["card"]:
            raise ModelFileError(
                f"{name} has a privacy card that its own ledger contradicts; do not rely on it: "
                "ask for the model anew"
            )
    except ModelFileError:
        raise
    except Exception as error:  # what was made to be read wrongly may fail anywhere
        told = str(error) if isinstance(error, DpstreamError) else type(error).__name__
        raise ModelFileError(f"{name} holds no whole model ({told}); {_AGAIN}") from None
    return model


def model_path(path: object) -> Path:
    """A model's path that was handed in."""
    return require_path(path, "the model's path", "name a file: 'model.dps'")


_AGAIN = "copy or save it again"


def _content(model: SavedModel, arrays: Mapping[str, bytes]) -> dict[str, Any]:
    scores = model.scores
    return {
        "kind": _KIND,
        "format": FORMAT,
        "dpstream": dpstream.__version__,
        "link": scores.link,
        "classes": list(model.classes),
        "features": _features(scores.domain),
        "arrays": {
            key: {"file": f"{key}.npy", "sha256": hashlib.sha256(data).hexdigest()}
            for key, data in arrays.items()
        },
        "card": model.card.to_json(),
        "domain": scores.domain.to_json(),
        "provenance": dict(model.provenance),
        "release": to_line(model.release).decode(),
        "ledger": [row.to_json() for row in model.rows],
    }


def _features(domain: Domain) -> list[dict[str, Any]]:
    """How each encoded feature is made of a record: enough for a reader without this package."""
    mapping = domain.feature_map
    most = float(np.finfo(np.float64).max)
    features: list[dict[str, Any]] = []
    for column in domain.columns:
        place = len(features)
        if isinstance(column, Categorical):
            features += [
                {
                    "column": column.name,
                    "values": {known: float(known == level) for known in column.categories},
                    "otherwise": float(level == OTHER),
                    "middle": 0.0,
                }
                for level in column.coded_levels(domain.intercept)
            ]
            continue
        features.append(
            {
                "column": column.name,
                "lower": max(float(mapping.lower[place]), -most),
                "upper": min(float(mapping.upper[place]), most),
                "middle": float(mapping.centre[place]),
            }
        )
    return features


def _model(content: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> SavedModel:
    domain = Domain.from_json(content["domain"])
    if content["link"] not in LINKS:
        raise ModelFileError(f"the link {content['link']!r} is unknown to this version")
    if _features(domain) != content["features"]:
        raise ModelFileError("its features are not those of its domain: it was altered")
    release = from_line(content["release"].encode())
    scores = ScoreModel(
        domain=domain,
        coefficients=arrays["coefficients"],
        intercepts=arrays["intercepts"],
        link=content["link"],
    )
    released = ScoreModel.of_release(release.value, domain)
    if not (
        released.link == scores.link
        and np.array_equal(released.coefficients, scores.coefficients)
        and np.array_equal(released.intercepts, scores.intercepts)
    ):
        raise ModelFileError("its arrays are not what was released: it was altered")
    return SavedModel(
        scores=scores,
        release=release,
        rows=tuple(LedgerRow.from_json(row) for row in content["ledger"]),
        provenance=content["provenance"],
        classes=tuple(content["classes"]),
    )


def _npy(values: FloatArray) -> bytes:
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(values, "<f8"), allow_pickle=False)
    return file.getvalue()


def _files(arrays: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{key}.npy": data for key, data in arrays.items()}


def _parts(path: Path, name: str) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            wanted = {_JSON, *(f"{key}.npy" for key in _ARRAYS)}
            found = [info for info in archive.infolist() if info.filename in wanted]
            # As they were written: then nothing is larger in memory than in the file.
            if any(info.compress_type != zipfile.ZIP_STORED for info in found):
                raise ModelFileError(f"{name} was compressed, which saving never does; {_AGAIN}")
            if any(info.file_size > _LARGEST for info in found):
                raise ModelFileError(f"{name} says it holds more than a gigabyte; refused")
            return {info.filename: archive.read(info) for info in found}
    except FileNotFoundError:
        raise ModelFileError(f"{name} does not exist; name a file that save wrote") from None
    except OSError as error:
        raise ModelFileError(
            f"{name} cannot be read ({error.strerror}); name a file that save wrote"
        ) from None
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, ModelFileError):
            raise
        # What people try first: the readable record of a run, which lies beside its model.
        beside = path.with_name("model.dps")
        hint = f"load {beside}" if path.name == _JSON and beside.exists() else _AGAIN
        raise ModelFileError(
            f"{name} is no saved dpstream model, or was cut short or damaged; {hint}"
        ) from None


def _read_json(data: bytes | None, name: str) -> dict[str, Any]:
    if data is None:
        raise ModelFileError(f"{name} has no {_JSON}; it is no dpstream model")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise ModelFileError(f"{name} has a {_JSON} that is no dpstream model's; {_AGAIN}")
    return content


def _check_version(content: Mapping[str, Any], name: str) -> None:
    version = content.get("format")
    if version != FORMAT:
        raise ModelFileError(
            f"{name} has format {version!r}, by dpstream {content.get('dpstream')}; this is "
            f"dpstream {dpstream.__version__}, which reads format {FORMAT}: install the version "
            "that saved it, or save it anew"
        )


def _array(
    stated: Mapping[str, Any], key: str, parts: Mapping[str, bytes], name: str
) -> FloatArray:
    data = parts.get(f"{key}.npy")
    if data is None:
        raise ModelFileError(f"{name} has no {key}.npy; {_AGAIN}")
    if hashlib.sha256(data).hexdigest() != stated["sha256"]:
        raise ModelFileError(f"{name}: {key}.npy does not match its digest; {_AGAIN}")
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False), np.float64)


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
