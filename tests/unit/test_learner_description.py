"""A stream's public declaration tells every two different ones apart."""

import numpy as np
import pytest

from dpstream.errors import ConfigurationError
from dpstream.geometry.group_ball import GroupBall
from dpstream.geometry.hull import VertexHull
from dpstream.geometry.image import shift
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.solvers.description import described


def test_descriptions_tell_sets_apart() -> None:
    sets = [
        L1Ball(dimension=3),
        L1Ball(dimension=3, radius=2.0),
        L2Ball(dimension=3),
        VertexHull(np.eye(3)),
        VertexHull(2 * np.eye(3)),
        VertexHull(np.arange(300.0).reshape(100, 3)),
        VertexHull(np.arange(300.0).reshape(100, 3) + 1e-9),
        shift(L1Ball(dimension=3), np.ones(3)),
        GroupBall(dimension=3, group_size=2),
    ]
    texts = [str(described(item)) for item in sets]
    assert len(set(texts)) == len(sets)
    assert texts == [str(described(item)) for item in sets]


def test_what_cannot_be_recognised_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be described"):
        described({"set": object()})
