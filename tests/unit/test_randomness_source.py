import copy
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpstream.errors import ConfigurationError, NotPrivate
from dpstream.mechanisms.public import PublicGenerator, public_generator
from dpstream.randomness.source import KEY_BYTES, KeyStream, NoiseSource, encode

SOURCE = NoiseSource.insecure(7)
DIGEST = SOURCE.bind(np.arange(3))


def test_entropy_gives_distinct_secret_keys():
    first, second = NoiseSource.from_entropy(), NoiseSource.from_entropy()
    assert len(first.key_bytes()) == KEY_BYTES
    assert first.key_bytes() != second.key_bytes()
    assert not first.is_insecure


def test_a_stored_key_continues_the_same_noise():
    source = NoiseSource.from_entropy()
    again = NoiseSource.from_key(source.key_bytes())
    digest = source.bind(np.arange(3))
    assert again.bind(np.arange(3)) == digest
    assert np.array_equal(again.words((1,), digest, 50), source.words((1,), digest, 50))


def test_a_seed_marks_the_key_itself():
    assert SOURCE.is_insecure
    assert NoiseSource.from_key(SOURCE.key_bytes()).is_insecure
    assert SOURCE.child("a").is_insecure
    assert NoiseSource.from_key(SOURCE.child("a").key_bytes()).is_insecure


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_a_seed_outside_64_bits_is_refused(seed: int):
    with pytest.raises(ConfigurationError, match="seed"):
        NoiseSource.insecure(seed)


def test_a_key_of_another_length_is_refused_without_showing_it():
    with pytest.raises(ConfigurationError, match="3 bytes") as caught:
        NoiseSource.from_key(b"abc")
    assert "abc" not in str(caught.value)


def test_representation_hides_the_key():
    source = NoiseSource.from_entropy()
    assert repr(source) == "NoiseSource(secret key)"
    assert repr(SOURCE) == "NoiseSource(insecure seed)"
    assert not hasattr(source, "__dict__")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_source_cannot_be_duplicated(duplicate):
    with pytest.raises(NotPrivate, match=r"cannot be copied or pickled.* open the stream's store$"):
        duplicate(NoiseSource.from_entropy())


def test_children_are_independent_of_each_other_and_of_their_parent():
    for source in (SOURCE, NoiseSource.from_entropy()):
        keys = {source.key_bytes(), source.child("a").key_bytes(), source.child("b").key_bytes()}
        assert len(keys) == 3
        assert source.child("a").key_bytes() == source.child("a").key_bytes()
    assert not NoiseSource.from_entropy().child("a").is_insecure


def test_every_coordinate_of_a_stream_name_matters():
    def words(address=(1, "a"), digest=DIGEST, purpose=()):
        return SOURCE.stream(address, digest, purpose=purpose).words(4).tobytes()

    streams = [
        words(),
        words(address=(1, "b")),
        words(address=(2, "a")),
        words(address=("1", "a")),
        words(digest=SOURCE.bind(np.arange(4))),
        words(purpose=(1,)),
        words(address=(1,), purpose=("a",)),
        NoiseSource.insecure(8).stream((1, "a"), DIGEST).words(4).tobytes(),
    ]
    assert len(set(streams)) == len(streams)
    assert words() == SOURCE.words((1, "a"), DIGEST, 4).tobytes()


parts = st.lists(st.integers(-(2**70), 2**70) | st.text(max_size=5), max_size=4).map(tuple)


@given(first=parts, second=parts)
def test_encoding_is_injective(first, second):
    assert (encode(first) == encode(second)) == (first == second)


def test_numpy_integers_name_the_same_node():
    assert encode((np.int64(5),)) == encode((5,))


def test_an_address_part_of_another_type_is_refused():
    with pytest.raises(ConfigurationError, match="float"):
        encode((1.5,))  # type: ignore[arg-type]  # what is refused


def test_a_digest_covers_type_shape_lattice_and_every_element():
    value = np.arange(6)
    digests = [
        SOURCE.bind(value),
        SOURCE.bind(value, exponent=-1),
        SOURCE.bind(value.reshape(2, 3)),
        SOURCE.bind(value.reshape(3, 2)),
        SOURCE.bind(value.astype(np.float64)),
        SOURCE.bind(value + np.eye(6, dtype=np.int64)[5]),
        SOURCE.bind(value[:5]),
        SOURCE.bind(value[:0]),
        SOURCE.bind(value[:1]),
        SOURCE.bind(np.asarray(value[0])),
        NoiseSource.insecure(8).bind(value),
    ]
    assert len(set(digests)) == len(digests)
    assert all(len(digest) == 32 for digest in digests)


def test_a_digest_ignores_memory_layout():
    value = np.arange(12).reshape(3, 4)
    for same in (
        np.asfortranarray(value),
        np.repeat(value, 2, axis=1)[:, ::2],
        value.astype(">i8"),
    ):
        assert SOURCE.bind(same) == SOURCE.bind(value)


@given(cuts=st.lists(st.integers(0, 70_000), max_size=5))
def test_no_word_is_lost_however_requests_are_cut(cuts: list[int]):
    whole = SOURCE.words((2,), DIGEST, sum(cuts))
    stream = SOURCE.stream((2,), DIGEST)
    pieces = [stream.words(cut) for cut in cuts]
    assert np.array_equal(np.concatenate([*pieces, np.empty(0, np.uint64)]), whole)
    assert stream.position == sum(cuts)


def test_extensions_begin_alike_and_differ_between_positions():
    stream = SOURCE.stream((3,), DIGEST)
    long = stream.extension(5, 192)
    assert long >> 128 == stream.extension(5, 64)
    assert len({stream.extension(position, 192) for position in range(100)}) == 100
    # The main lane is no extension lane.
    first = int.from_bytes(stream.words(1).astype("<u8").tobytes(), "big")
    assert first not in (stream.extension(0, 64), long >> 128)


def test_a_big_endian_machine_draws_the_same_words(monkeypatch: pytest.MonkeyPatch):
    native = SOURCE.words((4,), DIGEST, 8)
    monkeypatch.setattr(sys, "byteorder", "big")
    swapped = SOURCE.words((4,), DIGEST, 8)
    assert np.array_equal(swapped.byteswap(), native)


def test_a_stream_key_alone_makes_the_stream():
    key = bytes(range(32))
    assert np.array_equal(KeyStream(key).words(3), KeyStream(key).words(3))


def test_public_randomness_is_seeded():
    generator = public_generator(3)
    assert isinstance(generator, PublicGenerator)
    assert generator.random() == public_generator(3).random()
