"""A plugin of pytest: the tests run beside the fake GPU."""

from __future__ import annotations

from tests import fake_gpu

fake_gpu.load()
