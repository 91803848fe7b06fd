"""Secrets at rest: where the key comes from, and how state is sealed with it.

AES-256-GCM under a key of the store's own, derived from the user's key and the stream's random
name, with a random 96-bit nonce for every sealing. A restored older copy of a store therefore
never meets its old nonces again, except by chance: 2^-33 after 2^32 sealings. The associated
data name the stream, the row and its place, so that no sealed row can stand in for another.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpstream.engine.ports import KeyProvider
from dpstream.errors import StoreCorrupt, StoreError, StoreMismatch

KEY_BYTES = 32
KEY_VARIABLE = "DPSTREAM_KEY"
_NONCE_BYTES = 12


class Vault:
    """Seals and opens one stream's secrets.

    Args:
        key: the user's key.
        stream_id: the stream's random name.
        name: the store's name, for messages.
    """

    def __init__(self, key: bytes, *, stream_id: str, name: str) -> None:
        derived = hashlib.blake2b(stream_id.encode(), key=key, person=b"dpstream.vault").digest()
        self._cipher = AESGCM(derived[:KEY_BYTES])
        self._check = derived[KEY_BYTES:]
        self._stream_id = stream_id
        self._name = name

    @property
    def check(self) -> bytes:
        """Tells, in a store, whether a key is the right one; reveals nothing of it."""
        return self._check

    def require(self, check: bytes) -> None:
        """Refuse a store that was made with another key.

        Raises:
            StoreMismatch: if it was.
        """
        if not hmac.compare_digest(check, self._check):
            raise StoreMismatch(
                f"{self._name} was made with another key; give the key file or {KEY_VARIABLE} "
                "it was made with"
            )

    def seal(self, content: bytes, *, row: str) -> bytes:
        """Encrypt a row's content."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, self._bound(row))

    def unseal(self, sealed: bytes, *, row: str) -> bytes:
        """Decrypt a row's content.

        Raises:
            StoreCorrupt: if it was changed, or belongs to another row or stream.
        """
        nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, body, self._bound(row))
        except (InvalidTag, ValueError):
            raise StoreCorrupt(
                f"{self._name}: its {row.partition(' ')[0]} row does not verify; restore the "
                "store from a copy"
            ) from None

    def _bound(self, row: str) -> bytes:
        return f"dpstream {self._stream_id} {row}".encode()


class EnvironmentKey:
    """The key in an environment variable: 64 hexadecimal digits, or base64 of 32 bytes."""

    def __init__(self, variable: str = KEY_VARIABLE) -> None:
        self._variable = variable

    @property
    def name(self) -> str:
        """Where it looks."""
        return f"environment variable {self._variable}"

    def key(self, *, create: bool) -> bytes:
        """The key; one is never created here."""
        del create
        return _decoded(os.environ.get(self._variable, ""), self.name)


class KeyFile:
    """The key in a file that its owner alone may read."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)

    @property
    def name(self) -> str:
        """Where it looks."""
        return f"key file {self._path}"

    def key(self, *, create: bool) -> bytes:
        """The key; ``create`` writes a fresh one if there is no file yet.

        Raises:
            StoreError: if it is missing, not its owner's alone, or no key.
        """
        try:
            if create and not self._path.exists():
                self._create()
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                content = file.read(1024)
        except FileNotFoundError as error:
            if create:
                raise StoreError(
                    f"{self.name} cannot be made ({error.strerror}); make its folder first, or "
                    "choose another place"
                ) from None
            raise StoreError(
                f"{self.name} is missing; the store cannot be opened without it"
            ) from None
        except OSError as error:
            raise StoreError(f"{self.name} cannot be used ({error.strerror})") from None
        if status.st_mode & 0o077:
            raise StoreError(
                f"{self.name} is open to others (mode {status.st_mode & 0o777:04o}); "
                f"run: chmod 600 {self._path}"
            )
        if status.st_uid not in (os.geteuid(), 0):
            raise StoreError(f"{self.name} belongs to another user; use a key file of your own")
        return _decoded(content.decode("ascii", "replace"), self.name)

    def _create(self) -> None:
        # Written aside and linked into place: no reader ever sees half a key, and of two
        # creators one wins and both use its key.
        aside = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(KEY_BYTES) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(aside, self._path)
        finally:
            aside.unlink(missing_ok=True)
        sync_folder(self._path.parent)


def default_key(folder: Path) -> KeyProvider:
    """``DPSTREAM_KEY`` if it is set, else the file ``store.key`` in the folder.

    A key beside the store protects copies of the store's file that leave the folder, such as
    backups; against whoever can read the folder, keep the key elsewhere.
    """
    return EnvironmentKey() if os.environ.get(KEY_VARIABLE) else KeyFile(folder / "store.key")


def sync_folder(folder: Path) -> None:
    """Make a folder's entries durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _decoded(text: str, name: str) -> bytes:
    text = text.strip()
    try:
        key = (
            bytes.fromhex(text)
            if len(text) == 2 * KEY_BYTES
            else base64.b64decode(text, None, True)
        )
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise StoreError(
            f"{name} holds no key; it needs {2 * KEY_BYTES} hexadecimal digits, for instance "
            'from: python -c "import secrets; print(secrets.token_hex(32))"'
        )
    return key
