"""Guards the ports of workers: TensorFlow's server runs any operation for whoever reaches it.

Workers of one machine listen on its loopback alone. A connection reaches the server only if its other side knows the
cluster's secret, which `recgraph_launch` draws for the workers that it starts, and users give to workers of several
machines. `cc/interpreter/ports.cc` is how.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import socket
import stat
import sys
import tempfile
from pathlib import Path

from recgraph import native
from recgraph.distribute.cluster_spec import WorkerAddress
from recgraph.distribute.errors import ClusterError
from recgraph.logs import logger

SECRET = "RECGRAPH_SECRET"
SECRET_FILE = "RECGRAPH_SECRET_FILE"
_ENOUGH = 16  # characters of a secret that nobody guesses

log = logger("distribute")


def guard(place: WorkerAddress, needs_secret: bool = True) -> bytes:
    """Guards the port of this process's server, which is to be started next, and says what cannot be guarded.

    Args:
      place: of this worker.
      needs_secret: whether others have to know the secret; else the server only listens on the worker's own address.

    Returns:
      The secret that others have to know; b"" if none.

    Raises:
      ClusterError: the secret is too short, or its file cannot be read.
    """
    peers = tuple(
        (index, (address, port)) for index in range(len(place.hosts)) for address, port in _addresses(place, index)
    )
    is_local = all(_is_loopback(address) for _, (address, _) in peers)
    known = _secret(is_local) if needs_secret else b""
    own = _own_address(place, is_local)
    if not native.ports().guard((own, place.port), place.index, peers, known):
        own, known = b"", b""  # a TensorFlow that is linked in another way
    log.info("listening on %s, %s", _name(own), "with a secret" if known else "without a secret")
    if what := _open(place, own, known, is_local):
        print(f"recgraph: {what}", file=sys.stderr, flush=True)
    return known


def _open(place: WorkerAddress, own: bytes, known: bytes, is_local: bool) -> str:
    """What anybody can do in spite of the guard; "" if nothing."""
    where = f"port {place.port} of {_name(own)}"
    if not known:
        return (
            f"whoever reaches {where} can run any operation of TensorFlow as this user; keep others away from it, or "
            f"give all workers of a training the same {SECRET} (or {SECRET_FILE}) in their environment"
        )
    if not is_local:
        return f"{where} takes only workers that know {SECRET}; what they send each other is not encrypted"
    return ""


def _name(address: bytes) -> str:
    if not address:
        return "all addresses of this machine"
    found = ipaddress.IPv6Address(address)
    return str(found.ipv4_mapped or found)


def _addresses(place: WorkerAddress, index: int) -> list[tuple[bytes, int]]:
    """What the name of a worker's host is looked up as, as IPv6 addresses, with the port."""
    host, _, port = place.hosts[index].rpartition(":")
    found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    packed = dict.fromkeys(_packed(str(entry[4][0]).partition("%")[0]) for entry in found)
    return [(address, int(port)) for address in packed]


def _packed(address: str) -> bytes:
    parsed = ipaddress.ip_address(address)
    return parsed.packed if parsed.version == 6 else b"\0" * 10 + b"\xff\xff" + parsed.packed


def _is_loopback(address: bytes) -> bool:
    parsed = ipaddress.IPv6Address(address)
    return (parsed.ipv4_mapped or parsed).is_loopback


def _own_address(place: WorkerAddress, is_local: bool) -> bytes:
    """Where to listen: at the address by which the others know this worker, if it is one of this machine's.

    Behind a translation of addresses it is not. Some machines know themselves by a loopback address, at which nobody
    else would reach them.
    """
    for address, _ in _addresses(place, place.index):
        if (is_local or not _is_loopback(address)) and _is_of_this_machine(address):
            return address
    return b""


def _is_of_this_machine(address: bytes) -> bool:
    parsed = ipaddress.IPv6Address(address)
    family = socket.AF_INET if parsed.ipv4_mapped else socket.AF_INET6
    try:
        with socket.socket(family) as probe:
            probe.bind((_name(address), 0))
    except OSError:
        return False
    return True


def _secret(is_local: bool) -> bytes:
    """What the workers of this cluster have in common, and nobody else knows; none if there is nothing."""
    given, file = os.environ.get(SECRET, ""), os.environ.get(SECRET_FILE)
    if not given and file:
        try:
            given = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as cause:
            raise ClusterError(f"the file of {SECRET_FILE} cannot be read", found=str(cause)) from cause
    if not given and is_local:
        return _of_user()
    if given and len(given.strip()) < _ENOUGH:
        raise ClusterError(
            "the secret of the workers is too short",
            found=f"{len(given.strip())} characters",
            expected=f"{_ENOUGH} or more",
            next_step=f"draw one: export {SECRET}=$(openssl rand -hex 32), the same for all workers",
        )
    return given.strip().encode()


def _of_user() -> bytes:
    """The secret of this user on this machine, in a file that nobody else can read; made by whoever needs it first."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recgraph"
    path = folder / "secret"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _write(path)
        return _require_private(path).read_bytes()
    except (OSError, RuntimeError) as cause:  # no home, or a disk that cannot be written
        log.info("there is no secret of this user: %s", cause)
        return b""


def _write(path: Path) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)  # only for this user
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):  # another worker was first
            os.link(name, path)
    finally:
        os.unlink(name)


def _require_private(path: Path) -> Path:
    """The path of a file that only this user can read.

    Raises:
      ClusterError: others can.
    """
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ClusterError(
            "others can read the secret of this user's workers",
            where=str(path),
            found=stat.filemode(found.st_mode),
            expected="a file of this user's with mode 600",
            next_step="remove it: it is made anew",
        )
    return path
