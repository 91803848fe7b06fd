"""ONNX: a released model for any runtime, with clipping and encoding inside.

The graph takes what a record holds, not what the model was fitted on: values are clipped to their
public bounds, a missing number counts as the middle of its bounds, categories become indicators.
The privacy card is in the file's metadata.
"""

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.column import Categorical
from dpstream.errors import ConfigurationError, ModelFileError
from dpstream.saved.model_file import model_path
from dpstream.saved.saved_model import SavedModel

OPSET = 19
"""The first in which texts are compared."""

IR_VERSION = 9
"""The one that belongs to it: older runtimes read it too."""


class _Graph:
    """Nodes in order, with their constants."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self._helper, self._numpy = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self._numpy.from_array(np.asarray(values), name))
        return name

    def add(self, kind: str, *inputs: str, output: str | None = None, **options: Any) -> str:
        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, list(inputs), [output], **options))
        return output


def export_onnx(model: SavedModel, path: str | os.PathLike[str]) -> None:
    """Write a model as ONNX; needs the extra ``onnx``.

    Inputs: one matrix ``X`` of doubles in the columns' order, or, if there are categories, one
    input of one column for each, by its name: text for categories, doubles for others. Outputs:
    ``prediction``; for classifiers ``label``, and ``probabilities`` where the loss gives them.

    Args:
        model: what to write; an estimator's is ``estimator.saved_model()``.
        path: of the file, replaced if it is there.

    Raises:
        ModuleNotFoundError: without the extra.
        ModelFileError: if it cannot be written.
    """
    if not isinstance(model, SavedModel):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is checked
        raise ConfigurationError(
            f"export_onnx got {type(model).__name__}; hand it estimator.saved_model()"
        )
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "export_onnx needs onnx, which is not installed; run: pip install 'dpstream[onnx]'",
            name="onnx",
        ) from None
    graph = _Graph(helper, numpy_helper)
    inputs = _add_inputs(graph, model, helper, TensorProto)
    coefficients = graph.constant(model.scores.coefficients.T)
    product = graph.add("MatMul", inputs[0], coefficients)
    scores = graph.add("Add", product, graph.constant(model.scores.intercepts))
    outputs = _add_outputs(graph, model, scores, helper, TensorProto)
    made = helper.make_model(
        helper.make_graph(graph.nodes, "dpstream", inputs[1], outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="dpstream",
    )
    helper.set_model_props(made, {"privacy_card": json.dumps(model.card.to_json())})
    try:
        model_path(path).write_bytes(made.SerializeToString())
    except OSError as error:
        raise ModelFileError(
            f"{path} cannot be written ({error.strerror}); name a file in a folder that exists"
        ) from None


def _add_inputs(
    graph: _Graph, model: SavedModel, helper: Any, types: Any
) -> tuple[str, Sequence[Any]]:
    """Encoded features ``(rows, features)``, and the graph's inputs."""
    domain = model.scores.domain
    mapping = domain.feature_map
    if not any(isinstance(column, Categorical) for column in domain.columns):
        matrix = helper.make_tensor_value_info("X", types.DOUBLE, ["rows", len(domain.columns)])
        numbers = _bounded(graph, "X", mapping.lower, mapping.upper, mapping.centre)
        return numbers, [matrix]
    parts: list[str] = []
    inputs: list[Any] = []
    place = 0
    for column in domain.columns:
        kind = types.STRING if isinstance(column, Categorical) else types.DOUBLE
        inputs.append(helper.make_tensor_value_info(column.name, kind, ["rows", 1]))
        if isinstance(column, Categorical):
            parts += _indicators(graph, column, column.coded_levels(domain.intercept), types)
            place += len(column.coded_levels(domain.intercept))
        else:
            own = slice(place, place + 1)
            parts.append(
                _bounded(
                    graph, column.name, mapping.lower[own], mapping.upper[own], mapping.centre[own]
                )
            )
            place += 1
    return graph.add("Concat", *parts, axis=1), inputs


def _bounded(
    graph: _Graph, name: str, lower: FloatArray, upper: FloatArray, middle: FloatArray
) -> str:
    clipped = graph.add("Max", graph.add("Min", name, graph.constant(upper)), graph.constant(lower))
    return graph.add("Where", graph.add("IsNaN", name), graph.constant(middle), clipped)


def _indicators(graph: _Graph, column: Categorical, coded: Sequence[str], types: Any) -> list[str]:
    """One column for each coded level; the level of undeclared categories is what is left."""
    known = {
        level: graph.add(
            "Cast",
            graph.add("Equal", column.name, graph.constant(np.array([level], dtype=object))),
            to=types.DOUBLE,
        )
        for level in column.categories
    }
    others = [known[level] for level in column.categories]
    total = others[0] if len(others) == 1 else graph.add("Sum", *others)
    left = graph.add("Sub", graph.constant(np.array([1.0])), total)
    return [known.get(level, left) for level in coded]


def _add_outputs(
    graph: _Graph, model: SavedModel, scores: str, helper: Any, types: Any
) -> list[Any]:
    if not model.classes:
        values = graph.add("Exp", scores) if model.scores.link == "exp" else scores
        graph.add("Squeeze", values, graph.constant(np.array([1])), output="prediction")
        return [helper.make_tensor_value_info("prediction", types.DOUBLE, ["rows"])]
    outputs: list[Any] = []
    link = model.scores.link
    if link == "softmax":
        place = graph.add("ArgMax", scores, axis=1, keepdims=0)
        graph.add("Softmax", scores, axis=1, output="probabilities")
    else:
        flat = graph.add("Squeeze", scores, graph.constant(np.array([1])))
        above = graph.add("Greater", flat, graph.constant(np.array(0.0)))
        place = graph.add("Cast", above, to=types.INT64)
    if link == "logistic":
        chance = graph.add("Sigmoid", scores)
        rest = graph.add("Sub", graph.constant(np.array(1.0)), chance)
        graph.add("Concat", rest, chance, axis=1, output="probabilities")
    integers = all(type(label) is int for label in model.classes)
    texts = [str(label) for label in model.classes]
    labels = np.array(model.classes, np.int64) if integers else np.array(texts, dtype=object)
    graph.add("Gather", graph.constant(labels), place, output="label")
    kind = types.INT64 if integers else types.STRING
    outputs.append(helper.make_tensor_value_info("label", kind, ["rows"]))
    if link in ("logistic", "softmax"):
        size = ["rows", len(model.classes)]
        outputs.append(helper.make_tensor_value_info("probabilities", types.DOUBLE, size))
    return outputs
