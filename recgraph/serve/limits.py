"""What a server takes on."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much a server takes on.

    Attributes:
        requests: that are in progress at the same time; what comes beyond gets status 429.
        kilobytes: of the body of a request; a longer one gets status 413.
        seconds: that the head of a request, its body, and the reading of its answer may take each; a slower request
            gets status 408, and a client that does not read is cut off.
        connections: that are open at the same time; one more gets status 503 and is closed.
    """

    requests: int = 128
    kilobytes: int = 1024
    seconds: float = 10.0
    connections: int = 512
