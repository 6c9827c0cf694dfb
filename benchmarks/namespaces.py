"""Network namespaces of this machine as hosts of their own, with a switch between them and shaped links.

Made by `ip` and `tc`, as root. A namespace bears the number of the process that made it, so what a killed process has
left is found and removed by the next.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

PORT = 2222
_PREFIX = "recgraph"
# What a link may hold back, in bytes, so that it gives its rate: a few milliseconds of it.
_BURST = 1 << 18


class NoNamespacesError(Exception):
    """This process cannot make them; the text says why."""


class Hosts:
    """So many hosts. At the end of the `with` block none is left.

    Attributes:
      addresses: `host:port` of each.
      has_delay: whether the links have the delay that was asked for; else they have this kernel's own.
    """

    def __init__(self, count: int, gigabits: float | None = None, microseconds: float = 0.0):
        """Describes them.

        Args:
          count: how many.
          gigabits: a second, that each host can send; by default as fast as this kernel hands them on.
          microseconds: by which each sends later.
        """
        self.addresses = [f"10.0.0.{number + 1}:{PORT}" for number in range(count)]
        self.has_delay = microseconds == 0.0
        self._gigabits, self._microseconds = gigabits, microseconds
        self._name = f"{_PREFIX}-{os.getpid()}"

    def __enter__(self) -> Hosts:
        """Makes them.

        Raises:
          NoNamespacesError: this process may not, or `ip` is not there.
        """
        if shutil.which("ip") is None or shutil.which("tc") is None:
            raise NoNamespacesError("the commands ip and tc (iproute2) are not installed")
        try:
            _sweep()
            self._make()
        except NoNamespacesError:
            self.__exit__()
            raise
        return self

    def _make(self) -> None:
        switch = self._of("switch")
        _run("ip", "netns", "add", switch)
        _run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "bridge", "up")
        for number, address in enumerate(self.addresses):
            host = self._of(number)
            _run("ip", "netns", "add", host)
            _run(
                "ip",
                "-n",
                switch,
                "link",
                "add",
                f"port{number}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                host,
            )
            _run("ip", "-n", switch, "link", "set", f"port{number}", "master", "bridge", "up")
            _run("ip", "-n", host, "addr", "add", address.replace(f":{PORT}", "/24"), "dev", "eth0")
            for device in ("lo", "eth0"):
                _run("ip", "-n", host, "link", "set", device, "up")
            self._shape(host)

    def _shape(self, host: str) -> None:
        root = ["tc", "-n", host, "qdisc", "add", "dev", "eth0", "root"]
        if self._microseconds:
            rate = [] if self._gigabits is None else ["rate", f"{self._gigabits}gbit"]
            try:
                _run(*root, "netem", "delay", f"{self._microseconds}us", *rate, "limit", "100000")
                self.has_delay = True
                return
            except NoNamespacesError:  # not every kernel has it
                self.has_delay = False
        if self._gigabits is not None:
            _run(*root, "tbf", "rate", f"{self._gigabits}gbit", "burst", str(_BURST), "latency", "50ms")

    def _of(self, what: int | str) -> str:
        return f"{self._name}-{what}"

    def command(self, number: int, command: Sequence[str]) -> list[str]:
        """The command that runs a command on a host."""
        return ["ip", "netns", "exec", self._of(number), *command]

    def cut(self, number: int) -> None:
        """Takes a host off the network."""
        _run("ip", "-n", self._of("switch"), "link", "set", f"port{number}", "down")

    def mend(self, number: int) -> None:
        """Brings it back."""
        _run("ip", "-n", self._of("switch"), "link", "set", f"port{number}", "up")

    def slow_down(self, number: int, kilobits: int) -> None:
        """Lets a host send so much a second from here on."""
        rate = ["rate", f"{kilobits}kbit", "burst", "20000", "latency", "500ms"]
        _run("tc", "-n", self._of(number), "qdisc", "replace", "dev", "eth0", "root", "tbf", *rate)

    def speed_up(self, number: int) -> None:
        """Takes that back."""
        _run("tc", "-n", self._of(number), "qdisc", "del", "dev", "eth0", "root")

    def __exit__(self, *error: object) -> None:
        for name in _names():
            if name.startswith(f"{self._name}-"):
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _names() -> list[str]:
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    return [line.split()[0] for line in done.stdout.splitlines() if line.startswith(f"{_PREFIX}-")]


def _sweep() -> None:
    """Removes what processes have left that are gone."""
    for name in _names():
        if not Path(f"/proc/{name.split('-')[1]}").exists():
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNamespacesError(f"{' '.join(command)}: {done.stderr.strip() or f'status {done.returncode}'}")
