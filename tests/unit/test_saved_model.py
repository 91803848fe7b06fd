"""Saved models: read back, read without the package, exported, and refused when damaged."""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest

import dpstream as dp
from dpstream.errors import ModelFileError
from dpstream.estimators import (
    Grant,
    PrivateLogisticRegression,
    PrivateMean,
    PrivateRidge,
    PrivateSGDClassifier,
    PrivateSGDRegressor,
    WindowedLogisticRegression,
)
from dpstream.mechanisms.public import public_generator
from dpstream.saved import SavedModel, export_onnx, load_model, save_model

READER = Path(__file__).parents[2] / "examples" / "read_model.py"
GENERATOR = public_generator(1)
ROWS = 400
NUMBERS = pd.DataFrame(GENERATOR.uniform(-1.5, 1.5, (ROWS, 2)), columns=["age", "pay"])
MIXED = NUMBERS.assign(
    region=GENERATOR.choice(["north", "south", "west", "elsewhere"], ROWS),
)
SCORE = NUMBERS["age"] - 0.5 * NUMBERS["pay"]
PLAIN = {"age": (-1, 1), "pay": (-2, 1)}
KINDS = PLAIN | {"region": ["north", "south", "west"]}
FUNDS = {"epsilon": 20.0, "delta": 1e-6}


def numbers() -> PrivateRidge:
    return PrivateRidge(budget=Grant(**FUNDS), bounds=KINDS, target_bounds=(-2, 2), horizon=1).fit(
        MIXED, SCORE
    )


def two_labels() -> PrivateLogisticRegression:
    return PrivateLogisticRegression(
        budget=Grant(**FUNDS), bounds=PLAIN, classes=["no", "yes"], horizon=1
    ).fit(NUMBERS, np.where(SCORE > 0, "yes", "no"))


def three_labels() -> PrivateLogisticRegression:
    return PrivateLogisticRegression(
        budget=Grant(**FUNDS), bounds=KINDS, classes=[0, 1, 2], horizon=1
    ).fit(MIXED, np.digitize(SCORE, [-0.5, 0.5]))


def margins() -> PrivateSGDClassifier:
    return PrivateSGDClassifier(
        budget=Grant(**FUNDS), bounds=KINDS, classes=[False, True], loss="hinge", horizon=1
    ).fit(MIXED, SCORE > 0)


def without_bounds() -> PrivateSGDRegressor:
    return PrivateSGDRegressor(
        budget=Grant(**FUNDS), norm_bound=2.0, target_bounds=(-2, 2), fit_intercept=False, horizon=1
    ).fit(NUMBERS, SCORE)


MODELS: dict[str, Callable[[], Any]] = {
    item.__name__: item for item in (numbers, two_labels, three_labels, margins, without_bounds)
}


def asked(model: Any, count: int = 20) -> pd.DataFrame:
    """Rows to predict for: within bounds, beyond them, and missing."""
    table = (MIXED if "region" in model.feature_names_in_ else NUMBERS).head(count).copy()
    table.iloc[0, 0] = 99.0
    table.iloc[1, 1] = np.nan
    return table


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]()


def test_a_saved_model_reads_back_whole(model: Any, tmp_path: Path) -> None:
    digest = model.save(tmp_path / "m.dps")
    loaded = load_model(tmp_path / "m.dps", digest=digest)
    table = asked(model)
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
    assert loaded.card == model.privacy_
    assert loaded.release == model.release_
    assert save_model(loaded, tmp_path / "again.dps") == digest
    assert (tmp_path / "again.dps").read_bytes() == (tmp_path / "m.dps").read_bytes()


def test_the_file_holds_json_and_plain_arrays(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m.dps")
    with zipfile.ZipFile(tmp_path / "m.dps") as archive:
        names = archive.namelist()
        content = json.loads(archive.read("model.json"))
        for name in names[1:]:
            assert np.load(archive.open(name), allow_pickle=False).dtype == np.float64
    assert names == ["model.json", "coefficients.npy", "intercepts.npy"]
    assert content["format"] == 1
    card = content["card"]
    assert card["promise"].startswith("Somebody who sees everything")
    assert card["epsilon_spent"] == pytest.approx(20.0, rel=0.01)
    assert {item["name"] for item in card["bounds"]} >= set(model.feature_names_in_)
    assert card["unit"]
    assert card["neighbours"]
    assert card["events"]
    assert len(card["not_promised"]) >= 5


def test_a_script_of_twenty_lines_reads_it_without_the_package(model: Any, tmp_path: Path) -> None:
    lines = [line for line in READER.read_text().splitlines() if line.strip()]
    assert len(lines) <= 20
    model.save(tmp_path / "m.dps")
    table = asked(model)
    # Packages that must not be imported cannot be: the interpreter's path does not lead to them.
    blocked = tmp_path / "blocked"
    for name in ("dpstream", "sklearn", "scipy"):
        (blocked / name).mkdir(parents=True)
        (blocked / name / "__init__.py").write_text("raise ImportError('blocked')\n")
    done = subprocess.run(
        [sys.executable, str(READER), str(tmp_path / "m.dps")],
        input=table.to_csv(index=False),
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(blocked)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    expected = model.predict(table)
    said = done.stdout.split()
    if hasattr(model, "classes_"):
        assert said == [str(value) for value in expected.tolist()]
    else:
        np.testing.assert_allclose([float(word) for word in said], expected, rtol=1e-12)


def run_onnx(path: Path, table: pd.DataFrame, categories: bool) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    if categories:
        inputs = {
            name: table[[name]].to_numpy(object if name == "region" else np.float64)
            for name in table.columns
        }
    else:
        inputs = {"X": table.to_numpy(np.float64)}
    outputs = [output.name for output in session.get_outputs()]
    return dict(zip(outputs, session.run(None, inputs), strict=True))


def test_onnx_predicts_the_same(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    export_onnx(model.saved_model(), path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    table = asked(model)
    found = run_onnx(path, table, "region" in table.columns)
    if not hasattr(model, "classes_"):
        np.testing.assert_allclose(found["prediction"], model.predict(table), rtol=1e-12)
        return
    wanted = model.predict(table).tolist()
    integers = all(type(label) is int for label in wanted)
    assert found["label"].tolist() == (wanted if integers else [str(label) for label in wanted])
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), rtol=1e-12)
    else:
        assert "probabilities" not in found


def test_onnx_carries_the_card(tmp_path: Path) -> None:
    fitted = two_labels()
    export_onnx(fitted.saved_model(), tmp_path / "m.onnx")
    held = {item.key: item.value for item in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert json.loads(held["privacy_card"])["promise"] == fitted.privacy_.promise


def test_a_release_of_a_stream_is_saved_without_an_estimator(tmp_path: Path) -> None:
    learner = dp.PrivIncReg1(
        domain=dp.Domain.vectors(2, norm_bound=1.0, target_bound=1.0),
        budget=dp.Budget(epsilon=1.0, delta=1e-6),
        unit=dp.Unit(),
        neighbours=dp.Neighbours.ZERO_OUT,
        horizon=1,
    )
    stream = dp.Stream(learner=learner, schedule=dp.EveryRecords(records=10))
    with dp.Session(stream, store=dp.MemoryStore()) as session:
        (release,) = session.run(dp.MemorySource(np.full((10, 3), 0.1)))
        saved = SavedModel.of_release(release, domain=learner.domain, rows=session.ledger.rows)
    save_model(saved, tmp_path / "m.dps")
    assert load_model(tmp_path / "m.dps").predict(np.zeros((1, 2))) == pytest.approx([0.0])


# --- damage ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "m.dps"
    two_labels().save(path)
    return path


def rewritten(whole: Path, path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The file with its JSON changed, its digest not."""
    with zipfile.ZipFile(whole) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(parts["model.json"])
    change(content)
    parts["model.json"] = json.dumps(content).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_file_cut_short_is_refused(whole: Path, tmp_path: Path, share: float) -> None:
    data = whole.read_bytes()
    cut = tmp_path / "cut.dps"
    cut.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ModelFileError, match="cut short or damaged; copy or save it again"):
        load_model(cut)


def test_no_single_damaged_byte_passes_for_the_model(whole: Path, tmp_path: Path) -> None:
    data, damaged = whole.read_bytes(), tmp_path / "damaged.dps"
    original = load_model(whole)
    found = 0
    for place in range(0, len(data), max(1, len(data) // 150)):
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            loaded = load_model(damaged)
        except ModelFileError:
            found += 1
        else:
            # Bytes that say nothing, such as a zip entry's date.
            assert loaded.card == original.card
            assert loaded.release == original.release
            np.testing.assert_array_equal(loaded.scores.coefficients, original.scores.coefficients)
    assert found > 100


def test_another_version_is_told(whole: Path, tmp_path: Path) -> None:
    path = rewritten(whole, tmp_path / "new.dps", lambda content: content.update(format=2))
    with pytest.raises(ModelFileError, match=r"has format 2.*reads format 1: install the version"):
        load_model(path)


@pytest.mark.parametrize("key", ["link", "classes", "features", "card", "release", "ledger"])
def test_an_edit_is_found(whole: Path, tmp_path: Path, key: str) -> None:
    path = rewritten(whole, tmp_path / "edited.dps", lambda content: content.update({key: None}))
    with pytest.raises(ModelFileError, match="does not match its digest: it was altered"):
        load_model(path)


def with_digest(content: dict[str, Any]) -> None:
    from dpstream.saved.model_file import _digest

    content.pop("digest")
    content["digest"] = _digest(content)


def test_a_card_that_promises_more_than_the_ledger_is_found(whole: Path, tmp_path: Path) -> None:
    def embellish(content: dict[str, Any]) -> None:
        content["card"]["epsilon_spent"] = 0.1
        with_digest(content)

    path = rewritten(whole, tmp_path / "forged.dps", embellish)
    with pytest.raises(ModelFileError, match="its own ledger contradicts"):
        load_model(path)


def test_coefficients_that_were_not_released_are_found(whole: Path, tmp_path: Path) -> None:
    def turn(content: dict[str, Any]) -> None:
        content["link"] = "sign"
        with_digest(content)

    path = rewritten(whole, tmp_path / "forged.dps", turn)
    with pytest.raises(ModelFileError, match="not what was released"):
        load_model(path)


def test_a_ledger_that_was_edited_is_found(whole: Path, tmp_path: Path) -> None:
    def cheapen(content: dict[str, Any]) -> None:
        content["ledger"][0]["event"]["mu"] = 0.01
        with_digest(content)

    path = rewritten(whole, tmp_path / "forged.dps", cheapen)
    with pytest.raises(ModelFileError, match="does not match its digest"):
        load_model(path)


def test_a_forgery_of_the_whole_is_found_by_a_digest_from_elsewhere(
    whole: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.dps"
    digest = two_labels().save(other)
    assert load_model(other, digest=digest).classes == ("no", "yes")
    with pytest.raises(ModelFileError, match="it is another model, or was forged"):
        load_model(whole, digest=digest)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="does not exist"):
        load_model(tmp_path / "nowhere.dps")
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_model(tmp_path)
    text = tmp_path / "text.dps"
    text.write_text("a model, honestly")
    with pytest.raises(ModelFileError, match="is no saved dpstream model"):
        load_model(text)
    archive = tmp_path / "other.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("readme.txt", "hello")
    with pytest.raises(ModelFileError, match=r"has no model\.json"):
        load_model(archive)


def test_arrays_that_are_pickles_are_not_opened(whole: Path, tmp_path: Path) -> None:
    import hashlib
    import pickle

    fallen = tmp_path / "fallen"

    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (fallen,)

    evil = pickle.dumps(Trap())
    pickle.loads(evil)  # whoever opens it falls
    fallen.unlink()
    path = tmp_path / "pickle.dps"

    def point(content: dict[str, Any]) -> None:
        content["arrays"]["coefficients"]["sha256"] = hashlib.sha256(evil).hexdigest()
        with_digest(content)

    rewritten(whole, path, point)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (parts | {"coefficients.npy": evil}).items():
            archive.writestr(name, data)
    with pytest.raises(ModelFileError, match="holds no whole model"):
        load_model(path)
    assert not fallen.exists()


def test_a_model_that_cannot_be_written_leaves_the_old_one(whole: Path, tmp_path: Path) -> None:
    model = load_model(whole)
    with pytest.raises(ModelFileError, match="cannot be written"):
        save_model(model, tmp_path / "nowhere" / "m.dps")
    kept = tmp_path / "kept.dps"
    shutil.copy(whole, kept)
    save_model(model, kept)
    assert kept.read_bytes() == whole.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["kept.dps"]


def test_means_are_not_models_that_predict() -> None:
    assert not hasattr(PrivateMean(), "save")
    windowed = WindowedLogisticRegression(
        budget=Grant(**FUNDS), bounds=PLAIN, classes=[0, 1], window=200, release_every=100
    ).fit(NUMBERS, SCORE > 0)
    assert windowed.saved_model().classes == (0, 1)
