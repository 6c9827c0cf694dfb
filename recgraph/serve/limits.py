"""What a server takes on."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much a server takes on.

    Attributes:
        requests: that are in progress at the same time; what comes beyond gets status 429.
        kilobytes: of the body of a request; a longer one gets status 413.
        seconds: for which a body may take to arrive; a slower one gets status 408.
    """

    requests: int = 128
    kilobytes: int = 1024
    seconds: float = 10.0
