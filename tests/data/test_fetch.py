"""Downloads, from a server of our own: complete, resumed, and whatever can go wrong."""

import contextlib
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile

import pytest

from recgraph.data import SOURCES, FetchError, Source, fetch, generate_treebank, load_sst, read_imdb

FILES = {
    f"{split}.txt": "".join(f"{tree}\n" for tree in generate_treebank(200, seed))
    for seed, split in enumerate(("train", "dev", "test"))
}


def make_zip(folder: str = "trees") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for name, text in FILES.items():
            packed.writestr(f"{folder}/{name}", text)
        packed.writestr("../outside.txt", "no")
        packed.writestr(f"{folder}/../../outside.txt", "no")
    return stream.getvalue()


def make_tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as packed:
        for name in ("train/neg/0_1.txt", "train/pos/0_9.txt"):
            info = tarfile.TarInfo(f"aclImdb/{name}")
            info.size = 4
            packed.addfile(info, io.BytesIO(b"text"))
        link = tarfile.TarInfo("aclImdb/train/neg/1_1.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        packed.addfile(link)
    return stream.getvalue()


def make_source(data: bytes, url: str) -> Source:
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in FILES.items()}
    return Source(url, hashlib.sha256(data).hexdigest(), len(data), "trees", "sst", sums, {})


class Server:
    """Serves one archive; knows ranges if asked to, and can cut the connection after some bytes."""

    def __init__(self, data: bytes):
        self.data, self.ranges, self.cut, self.requests = data, True, None, []

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.requests.append(asked)
        first = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0
        if first >= len(self.data):
            handler.send_error(416)
            return
        body = self.data[first:]
        handler.send_response(206 if first else 200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: self.cut])


@pytest.fixture
def serve():
    with contextlib.ExitStack() as stack:

        def start(data: bytes) -> tuple[Server, str]:
            state = Server(data)

            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    state.answer(self)

                def log_message(self, *arguments):
                    pass

            server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return state, f"http://127.0.0.1:{server.server_port}/trees.zip"

        yield start


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_treebank_is_downloaded_checked_and_loaded(tmp_path, serve):
    data = make_zip()
    server, url = serve(data)
    seen = []
    folder = fetch(make_source(data, url), tmp_path / "data", progress=lambda *at: seen.append(at))
    assert folder == tmp_path / "data" / "sst"
    assert [len(split) for split in load_sst(tmp_path / "data")] == [200, 200, 200]
    assert seen[-1] == (len(data), len(data))
    assert names(tmp_path) == ["data"]  # nothing got outside
    assert names(tmp_path / "data") == ["sst"]
    assert fetch(make_source(data, url), tmp_path / "data") == folder
    assert len(server.requests) == 1  # the second time nothing is downloaded


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_was_cut_goes_on(tmp_path, serve, ranges, capsys):
    data = make_zip()
    server, url = serve(data)
    server.cut, server.ranges = 1000, ranges
    source = make_source(data, url)
    with pytest.raises(FetchError, match=rf"the connection ended after 1,000 of {len(data):,} bytes.* goes on from"):
        fetch(source, tmp_path)
    assert names(tmp_path) == ["trees.zip.part"]
    server.cut = None
    fetch(source, tmp_path)
    assert server.requests == [None, "bytes=1000-"]
    assert names(tmp_path) == ["sst"]
    assert f"\rdownloading 100% of {len(data) / 1e6:.1f} MB\n" in capsys.readouterr().err


def test_another_archive_is_refused_and_removed(tmp_path, serve):
    data = make_zip()
    _, url = serve(data[:-100] + b"x" * 100)
    with pytest.raises(FetchError, match=r"is not the expected archive: expected .* SHA-256 .*, found .* bytes with"):
        fetch(make_source(data, url), tmp_path)
    assert names(tmp_path) == []


def test_a_server_with_less_than_we_have_starts_over_next_time(tmp_path, serve):
    data = make_zip()
    _, url = serve(b"short")
    (tmp_path / "trees.zip.part").write_bytes(data[:1000])
    with pytest.raises(FetchError, match="416"):
        fetch(make_source(data, url), tmp_path)
    assert names(tmp_path) == []


def test_an_archive_put_there_by_hand_is_used(tmp_path):
    data = make_zip()
    (tmp_path / "trees.zip").write_bytes(data)
    fetch(make_source(data, "http://127.0.0.1:9/trees.zip"), tmp_path)
    assert names(tmp_path) == ["sst"]


def test_no_connection_says_what_to_do(tmp_path):
    with pytest.raises(FetchError, match=r"cannot download http://127.0.0.1:9/trees.zip: .*by hand: .*trees\.zip"):
        fetch(make_source(make_zip(), "http://127.0.0.1:9/trees.zip"), tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no zip at all", "cannot unpack .*: File is not a zip file"),
        (make_zip("other"), "does not contain the expected data: train.txt is missing"),
    ],
)
def test_what_is_in_the_archive_is_checked(tmp_path, serve, data, message):
    _, url = serve(data)
    with pytest.raises(FetchError, match=message):
        fetch(make_source(data, url), tmp_path)
    assert names(tmp_path) == ["trees.zip"]


def test_a_folder_that_is_something_else_is_left_alone(tmp_path):
    (tmp_path / "sst").mkdir()
    (tmp_path / "sst" / "train.txt").write_text("mine")
    with pytest.raises(FetchError, match=r"sst exists but is not the original data set \(train\.txt has another"):
        fetch("sst", tmp_path)
    assert (tmp_path / "sst" / "train.txt").read_text() == "mine"


def test_reviews_are_unpacked_without_links_and_counted(tmp_path, serve):
    data = make_tar()
    _, url = serve(data)
    address = url.replace("trees.zip", "reviews.tar.gz")
    digest = hashlib.sha256(data).hexdigest()
    counts = {"train/neg": 1, "train/pos": 1}
    fetch(Source(address, digest, len(data), "aclImdb", "aclImdb", {}, counts), tmp_path)
    assert [review.label for review in read_imdb(tmp_path)] == ["neg", "pos"]
    other = Source(address, digest, len(data), "aclImdb", "aclImdb", {}, {"train/neg": 3})
    with pytest.raises(FetchError, match="train/neg holds 1 reviews in place of 3"):
        fetch(other, tmp_path / "again")


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the data set must be one of sst, imdb; found 'mnist'"):
        fetch("mnist", tmp_path)


def test_the_real_treebank_is_the_one_that_would_be_fetched(real_data):
    assert fetch("sst", real_data) == real_data / "sst"
    assert set(SOURCES["sst"].files) == {"train.txt", "dev.txt", "test.txt"}
