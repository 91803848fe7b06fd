"""Model files made to be read wrongly: each is refused in one line, and none takes the memory."""

import hashlib
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstream.errors import ModelFileError
from dpstream.estimators import PrivateLinearRegression, Rehearsal
from dpstream.saved.model_file import load_model

HUGE = 10**400


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("forged") / "m.dps"
    PrivateLinearRegression(
        budget=Rehearsal(epsilon=1.0, delta=1e-6),
        bounds=(-1, 1),
        target_bounds=(-1, 1),
        horizon=1,
        intervals=False,
    ).fit(np.zeros((4, 2)), np.zeros(4)).save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forged(
    parts: dict[str, bytes], folder: Path, place: tuple[Any, ...] = (), value: Any = None
) -> Path:
    """The file with one value of its JSON changed, and its digest made anew."""
    content = json.loads(parts["model.json"])
    del content["digest"]
    if place:
        inner = content
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["digest"] = hashlib.sha256(text.encode()).hexdigest()
    return packed({**parts, "model.json": json.dumps(content).encode()}, folder)


def packed(parts: dict[str, bytes], folder: Path, compression: int = zipfile.ZIP_STORED) -> Path:
    path = folder / "forged.dps"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def header(shape: str, type_: str = "'<f8'") -> bytes:
    """An array's file that says much and holds eight bytes."""
    text = f"{{'descr': {type_}, 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + bytes(8)


def test_packed_as_it_was_it_loads(parts: dict[str, bytes], tmp_path: Path) -> None:
    assert load_model(forged(parts, tmp_path)).scores.coefficients.shape == (1, 2)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("extra",), float("nan")),
        (("card",), None),
        (("card", "events"), [[]]),
        (("domain", "norm_bound"), HUGE),
        (("domain", "columns", 0, "upper"), HUGE),
        (("domain",), []),
        (("ledger",), None),
        (("ledger", 0, "event", "mu"), HUGE),
        (("ledger", 0, "index"), 5),
        (("provenance",), [1]),
        (("classes",), 3),
        (("link",), ["identity"]),
        (("arrays",), {}),
        (("arrays", "coefficients"), []),
        (("release",), "\ud800"),
        (("release",), {}),
    ],
)
def test_a_value_of_another_kind_is_refused(
    parts: dict[str, bytes], tmp_path: Path, place: tuple[Any, ...], value: Any
) -> None:
    with pytest.raises(
        ModelFileError, match=r"no whole model|own ledger contradicts|is unknown to"
    ):
        load_model(forged(parts, tmp_path, place, value))


@pytest.mark.parametrize(
    "data",
    [
        header("(1000000000000,)"),
        header(f"({10**30},)"),
        header("(-5,)"),
        header("(1, 2)"),
        header("(1,)", "'|O'"),
        header("(1,)", "[('a', '<f8')]"),
        header(str((1,) * 70)),
        header("((((((("),
        b"\x93NUMPY",
        b"",
    ],
)
def test_an_array_that_is_none_is_refused(
    parts: dict[str, bytes], tmp_path: Path, data: bytes
) -> None:
    other = {**parts, "coefficients.npy": data}
    digest = hashlib.sha256(data).hexdigest()
    with pytest.raises(ModelFileError, match="holds no whole model"):
        load_model(forged(other, tmp_path, ("arrays", "coefficients", "sha256"), digest))


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe\x00", b"1e999"])
def test_text_that_is_no_description_is_refused(
    parts: dict[str, bytes], tmp_path: Path, text: bytes
) -> None:
    with pytest.raises(ModelFileError, match="no dpstream model's"):
        load_model(packed({**parts, "model.json": text}, tmp_path))


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_would_unpack_to_more_is_not_unpacked(
    parts: dict[str, bytes], tmp_path: Path, compression: int
) -> None:
    path = packed({**parts, "intercepts.npy": bytes(1 << 22)}, tmp_path, compression)
    assert path.stat().st_size < 1 << 16
    with pytest.raises(ModelFileError, match="was compressed, which saving never does"):
        load_model(path)
