"""One thread at a time.

Two in one tick would add records to each other's measurements, and charge a ledger that both found
unspent.
"""

from threading import Lock

from dpstream.errors import StoreError


class OneThread:
    """A stretch of code that a second thread is refused, not kept waiting for."""

    def __init__(self) -> None:
        self._busy = Lock()

    def __enter__(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise StoreError(
                "another thread is using this session, which is for one at a time; nothing was "
                "taken: wait for it, and hand these records in after its own"
            )

    def __exit__(self, *details: object) -> None:
        self._busy.release()
