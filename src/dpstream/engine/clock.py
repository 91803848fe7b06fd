"""The time of day."""

import time


class SystemClock:
    """The machine's clock. It may be set back; schedules and leases allow for that."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()
