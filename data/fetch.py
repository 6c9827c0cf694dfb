"""Downloads the original data sets: resumed where it stopped, checked by SHA-256, put in place whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import shutil
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from recgraph.data.files import PathLike

Progress = Callable[[int, int | None], None]

_CHUNK = 1 << 18
_TIMEOUT = 60.0


class FetchError(RuntimeError):
    """A data set could not be downloaded, or the download is not what was expected."""


@dataclass(frozen=True)
class Source:
    """Where a data set comes from and how to know it.

    Attributes:
        url: the archive, `.zip` or `.tar.gz`.
        sha256: of the archive.
        size: of the archive in bytes.
        folder: folder in the archive that holds the data.
        target: folder in the data folder that it becomes.
        files: SHA-256 of files in it; all must be there.
        counts: number of `.txt` files in folders in it.
    """

    url: str
    sha256: str
    size: int
    folder: str
    target: str
    files: Mapping[str, str]
    counts: Mapping[str, int]


SOURCES = {
    "sst": Source(
        url="https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
        sha256="5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
        size=789_539,
        folder="trees",
        target="sst",
        files={
            "train.txt": "e2f3f41b0b1e6d4dddc0effe3bfc2d27ed8928079aa9a03d652311614fc5feb7",
            "dev.txt": "0e9336aed6e4730e19f58d00a77b3f0297efdb755f7b5e598c98a05e3f97ea40",
            "test.txt": "6e54806dee95cf80cd918e7dfb3f6770f6df24bf826f289a4d1f709e1c8f6761",
        },
        counts={},
    ),
    "imdb": Source(
        url="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        sha256="c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        size=84_125_825,
        folder="aclImdb",
        target="aclImdb",
        files={},
        counts={
            "train/neg": 12_500,
            "train/pos": 12_500,
            "train/unsup": 50_000,
            "test/neg": 12_500,
            "test/pos": 12_500,
        },
    ),
}
"""The data sets that `fetch` knows, by name: `sst` and `imdb`."""


def fetch(name: str | Source, data_dir: PathLike, *, url: str | None = None, progress: Progress | None = None) -> Path:
    """Downloads a data set into the data folder unless it is already there.

    An interrupted download leaves `<archive>.part` and continues from there next time. The data appears under its final
    name only when it is complete and verified; a failure leaves the folder unchanged.

    Args:
        name: "sst", "imdb", or a `Source`.
        data_dir: the data folder; created if missing.
        url: another location of the same archive (a mirror, `file:///...`).
        progress: called with the bytes done and the total (None if unknown); by default prints a line on standard
            error.

    Returns:
        The folder of the data set.

    Raises:
        ValueError: the name is unknown.
        FetchError: there is no connection, the server reports an error, the checksum is wrong, or the archive is
            damaged or incomplete.
    """
    source = _source(name)
    target = Path(data_dir) / source.target
    if target.is_dir() and not _defects(source, target):
        return target
    if target.exists():
        raise FetchError(f"{target} exists but is not the original data set ({_defects(source, target)}); move it away")
    target.parent.mkdir(parents=True, exist_ok=True)
    address = url or source.url
    archive = target.parent / PurePosixPath(source.url).name
    _download(address, archive, source, progress or _print_progress)
    _install(archive, target, source)
    archive.unlink()
    return target


def _source(name: str | Source) -> Source:
    if isinstance(name, Source):
        return name
    if name not in SOURCES:
        raise ValueError(f"the data set must be one of {', '.join(SOURCES)}; found {name!r}")
    return SOURCES[name]


def _download(url: str, archive: Path, source: Source, progress: Progress) -> None:
    """Downloads the archive, or finds it complete from an earlier run."""
    part = archive.with_name(archive.name + ".part")
    if not archive.exists():
        try:
            _receive(url, part, source.size, progress)
        except (OSError, http.client.HTTPException, ValueError) as cause:  # urllib's errors are OSErrors
            if isinstance(cause, urllib.error.HTTPError) and cause.code == 416:  # the server has less than we do
                part.unlink(missing_ok=True)
            raise FetchError(
                f"cannot download {url}: {cause}; check the network and run the same command again: it goes on from "
                f"{_size(part):,} bytes. Or put the archive there by hand: {archive}"
            ) from cause
        os.replace(part, archive)
    found = _sha256(archive)
    if found != source.sha256:
        size = _size(archive)
        archive.unlink()
        raise FetchError(
            f"{url} is not the expected archive: expected {source.size:,} bytes with SHA-256 {source.sha256}, found "
            f"{size:,} bytes with {found}; it was removed, so try again or give another url"
        )


def _receive(url: str, part: Path, size: int, progress: Progress) -> None:
    """Downloads into `part`, going on after the bytes that are there."""
    done = _size(part)
    if done == size:
        return
    if done > size:
        part.unlink()
        done = 0
    headers = {"User-Agent": "recgraph", **({"Range": f"bytes={done}-"} if done else {})}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT) as reply:
        if done and reply.status != 206:  # the server sends the whole again
            done = 0
        length = reply.headers.get("Content-Length")
        total = done + int(length) if length is not None else None
        with open(part, "ab" if done else "wb") as stream:
            while chunk := reply.read(_CHUNK):
                stream.write(chunk)
                done += len(chunk)
                progress(done, total)
    if total is not None and done < total:
        raise OSError(f"the connection ended after {done:,} of {total:,} bytes")


def _install(archive: Path, target: Path, source: Source) -> None:
    """Unpacks beside the target, checks, and renames into place."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as temporary:
        try:
            _unpack(archive, Path(temporary), source.folder)
        except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as cause:
            raise FetchError(f"cannot unpack {archive}: {cause}") from cause
        unpacked = Path(temporary) / source.folder
        if defects := _defects(source, unpacked):
            raise FetchError(f"{archive} does not contain the expected data: {defects}")
        os.replace(unpacked, target)


def _unpack(archive: Path, into: Path, folder: str) -> None:
    """Unpacks the regular files below `folder`; no other name, link or device is ever made."""
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir() and _is_inside(info.filename, folder):
                    with packed.open(info) as stream:
                        _write(into / info.filename, stream)
        return
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            if member.isfile() and _is_inside(member.name, folder):
                extracted = tar.extractfile(member)
                assert extracted is not None  # a regular file
                with extracted:
                    _write(into / member.name, extracted)


def _is_inside(name: str, folder: str) -> bool:
    parts = PurePosixPath(name).parts
    return len(parts) > 1 and parts[0] == folder and ".." not in parts and "\\" not in name


def _write(path: Path, stream: IO[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as out:
        shutil.copyfileobj(stream, out)


def _defects(source: Source, folder: Path) -> str:
    """What is wrong with an unpacked data set, "" if nothing."""
    for name, expected in source.files.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if _sha256(folder / name) != expected:
            return f"{name} has another SHA-256 than {expected}"
    for name, count in source.counts.items():
        found = sum(1 for _ in (folder / name).glob("*.txt"))
        if found != count:
            return f"{name} holds {found:,} reviews in place of {count:,}"
    return ""


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def _print_progress(done: int, total: int | None) -> None:
    share = f"{done / total:4.0%} of {total / 1e6:.1f} MB" if total else f"{done / 1e6:.1f} MB"
    end = "\n" if done == total else ""
    print(f"\rdownloading {share}", end=end, file=sys.stderr, flush=True)
