"""The one origin of noise: a secret key, and a stream of words for every (address, digest).

A word stream is ChaCha20's keystream under a key that keyed BLAKE2b derives from the secret,
the *address* (what is measured), the *digest* (a keyed hash of the exact value it covers) and
the *purpose* (which law is drawn, at which scale). Hence

* replaying the same data gives the same noise: a crash never redraws a measurement;
* the same address with another value, or another scale, gives independent noise: two
  releases can never be subtracted to reveal what they differ in.

The first statement is exact; the second assumes that keyed BLAKE2b and ChaCha20 are
pseudo-random functions, which is the only idealisation of this package's noise.
"""

import hashlib
import operator
import secrets
import sys
from collections.abc import Iterable
from typing import Final, Never, SupportsIndex

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from dpstream.arrays import WordArray
from dpstream.errors import ConfigurationError, NotPrivate

KEY_BYTES: Final = 32
WORD_BYTES: Final = 8
Part = int | str
"""One part of an address or purpose."""

# A key that came from a seed says so itself: no store can restore it as a secret one. A key
# from entropy begins like this with probability 2^-192.
_INSECURE: Final = b"dpstream insecure seed\0\0"
_ZEROS: Final = bytes(1 << 18)


class KeyStream:
    """The words of one (address, digest, purpose): sequential, and each one extensible.

    The main lane hands out 64-bit words in order; no word is skipped or handed out twice,
    however the requests are cut. Each of its words has an *extension lane* of its own, found
    by the word's position: the further bits of the uniform number that begins with that word.
    Lanes are ChaCha20 streams under distinct nonces.

    Attributes:
        position: how many words of the main lane were handed out.
    """

    __slots__ = ("_key", "_main", "position")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._main = _keystream(key, 0)
        self.position = 0

    def words(self, count: int) -> WordArray:
        """The next ``count`` words of the main lane."""
        out = np.empty(count, np.uint64)
        self.fill(out)
        return out

    def fill(self, out: WordArray) -> None:
        """Overwrite a contiguous array with the next words of the main lane."""
        view = out.view(np.uint8).data
        zeros = memoryview(_ZEROS)
        for start in range(0, len(view), len(zeros)):
            part = view[start : start + len(zeros)]
            self._main.update_into(zeros[: len(part)], part)
        self.position += out.size
        # The keystream's bytes are little-endian words on every machine.
        if sys.byteorder == "big":
            out.byteswap(inplace=True)

    def extension(self, position: int, bits: int) -> int:
        """The first ``bits`` bits (a multiple of 8) that follow the word at ``position``.

        A longer request begins with the bits of a shorter one.
        """
        lane = _keystream(self._key, 1 + position)
        return int.from_bytes(lane.update(_ZEROS[: bits // 8]), "big")


class NoiseSource:
    """A secret key that turns addresses and values into noise.

    Made by ``from_entropy`` (operating system), ``from_key`` (a stored key), or, in tests
    alone, ``insecure``. It cannot be copied or pickled: a second holder of the key could be
    handed other data, and the promise that noise is drawn once would rest on nobody. Its
    ``repr`` never shows the key.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ConfigurationError(
                f"a noise key has {len(key)} bytes; it must have {KEY_BYTES}: "
                "use NoiseSource.from_entropy()"
            )
        self._key = bytes(key)

    @classmethod
    def from_entropy(cls) -> "NoiseSource":
        """A fresh secret key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_key(cls, key: bytes) -> "NoiseSource":
        """The source of a stored key; a key made from a seed stays marked as insecure."""
        return cls(key)

    @classmethod
    def insecure(cls, seed: int) -> "NoiseSource":
        """A source anyone can recompute: for tests alone; it protects nobody."""
        if not 0 <= seed < 1 << 64:
            raise ConfigurationError(f"seed is {seed}; it must be in [0, 2**64)")
        return cls(_INSECURE + seed.to_bytes(KEY_BYTES - len(_INSECURE), "big"))

    @property
    def is_insecure(self) -> bool:
        """True if the key came from a seed: no privacy statement holds then."""
        return self._key.startswith(_INSECURE)

    def key_bytes(self) -> bytes:
        """The secret key, for the store alone, which encrypts it."""
        return self._key

    def child(self, label: str) -> "NoiseSource":
        """The source of one part of a stream: independent of its parent and siblings."""
        derived = self._derive(b"dpstream.child", encode((label,)))
        if self.is_insecure:
            return NoiseSource(_INSECURE + derived[: KEY_BYTES - len(_INSECURE)])
        return NoiseSource(derived)

    def bind(self, value: npt.NDArray[np.int64 | np.float64], *, exponent: int = 0) -> bytes:
        """A keyed digest of an exact value: dtype, shape, lattice and every element.

        The same value gives the same digest in any memory layout and on any machine. Without
        the key it tells nothing of the value.
        """
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        header = encode((little.dtype.str, exponent, little.ndim, *little.shape))
        return self._derive(b"dpstream.bind", header, little.tobytes(order="C"))

    def stream(
        self, address: Iterable[Part], digest: bytes, *, purpose: Iterable[Part] = ()
    ) -> KeyStream:
        """The word stream of one measurement.

        Args:
            address: what is measured.
            digest: of the exact value the noise covers, from ``bind``.
            purpose: the law drawn and its parameters; each purpose has its own words.
        """
        return KeyStream(
            self._derive(
                b"dpstream.stream",
                encode(address),
                len(digest).to_bytes(8, "big"),
                digest,
                encode(purpose),
            )
        )

    def words(self, address: Iterable[Part], digest: bytes, count: int) -> WordArray:
        """The first ``count`` words of the stream of ``(address, digest)``, with no purpose."""
        return self.stream(address, digest).words(count)

    def _derive(self, person: bytes, *parts: bytes | memoryview) -> bytes:
        state = hashlib.blake2b(key=self._key, digest_size=KEY_BYTES, person=person)
        for part in parts:
            state.update(part)
        return state.digest()

    def __repr__(self) -> str:
        return f"NoiseSource({'insecure seed' if self.is_insecure else 'secret key'})"

    def __copy__(self) -> Never:
        raise _no_copy()

    def __deepcopy__(self, memo: object) -> Never:
        raise _no_copy()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Never:
        raise _no_copy()


def encode(parts: Iterable[Part]) -> bytes:
    """An injective encoding of a tuple of integers and strings (length-prefixed)."""
    pieces: list[bytes] = []
    for part in parts:
        if isinstance(part, str):
            tag, body = b"s", part.encode()
        else:
            try:
                number = operator.index(part)
            except TypeError:
                raise ConfigurationError(
                    f"an address part is {type(part).__name__}; it must be an integer or a string"
                ) from None
            tag, body = b"i", number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
        pieces.append(tag + len(body).to_bytes(8, "big") + body)
    return len(pieces).to_bytes(8, "big") + b"".join(pieces)


def _keystream(key: bytes, lane: int) -> CipherContext:
    # 64-bit block counter from zero, then a 64-bit nonce: the lane.
    nonce = bytes(8) + lane.to_bytes(8, "little")
    return Cipher(ChaCha20(key, nonce), mode=None).encryptor()


def _no_copy() -> NotPrivate:
    return NotPrivate(
        "a noise source cannot be copied or pickled: one key belongs to one stream; "
        "derive NoiseSource.child(label), or open the stream's store"
    )
