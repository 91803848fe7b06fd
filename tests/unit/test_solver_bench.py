"""The batch benchmark's own reader and its figures, on small made-up files."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from small_tables import write_adult

from dpstream.bench import batch as bench
from dpstream.cli.bench import bench as command
from dpstream.errors import SourceError
from dpstream.randomness.public import public_generator
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.output_perturbation import OutputPerturbation

RECORDS = 400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = public_generator(0)
    write_adult(tmp_path, generator, records=RECORDS, levels="abc")
    wilderness = generator.integers(0, 4, RECORDS)
    np.savez(
        tmp_path / "covtype.npz",
        num=generator.integers(0, 3000, (RECORDS, 10)),
        wilderness=wilderness,
        soil=generator.integers(0, 40, RECORDS),
        cover=np.where(wilderness == 1, 2, 1),
    )
    return tmp_path


def test_tables_are_scaled_by_constants(folder: Path) -> None:
    for name, width in (("adult", 5 + 24), ("covtype", 54)):
        table = bench.TABLES[name](folder)
        assert table.features.shape == (RECORDS, width)
        assert table.features.min() >= 0.0
        assert table.features.max() <= 1.0
        # The bound follows from the encoding, so no record is clipped.
        assert np.linalg.norm(table.features, axis=1).max() <= table.norm_bound
        assert table.norm_bound == {"adult": math.sqrt(13.0), "covtype": math.sqrt(12.0)}[name]
        assert set(np.unique(table.labels)) == {-1.0, 1.0}


def test_figures_are_json_and_name_the_best(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solvers = {
        "objective_perturbation": ObjectivePerturbation(),
        "output_perturbation": OutputPerturbation(),
    }
    monkeypatch.setattr(bench, "compared_solvers", lambda: solvers)
    found = json.loads(json.dumps(bench.run(data=folder, names=("covtype",), draws=2)))["covtype"]
    assert found["non_private_accuracy"] == 1.0  # the label is a category
    for figures in found["private"].values():
        assert figures["best"] in solvers
        assert figures["best_accuracy"] == max(
            item["accuracy"] for item in figures["solvers"].values()
        )
    again = bench.run(data=folder, names=("covtype",), draws=2)["covtype"]
    assert json.loads(json.dumps(again)) == found


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no adult\.npz"):
        bench.run(data=tmp_path)


def test_benchmarks_of_real_data_are_skipped_where_there_is_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command("batch", data=None, keep=False, as_json=False)
    assert "skipped: needs data sets; give their folder with --data" in capsys.readouterr().out
    monkeypatch.setattr(
        bench, "compared_solvers", lambda: {"output_perturbation": OutputPerturbation()}
    )
    monkeypatch.setattr(bench, "DRAWS", {"adult": 1, "covtype": 1})
    command("batch", data=folder, keep=False, as_json=True)
    found = json.loads(capsys.readouterr().out)["batch"]
    assert found["adult"]["private"]["epsilon=1"]["best"] == "output_perturbation"
