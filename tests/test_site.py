"""The site with the documentation: it is built without TensorFlow, is complete, and opens in a browser, offline."""

from __future__ import annotations

import functools
import http.server
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import pytest

REPOSITORY = Path(__file__).parents[1]
TOOL = REPOSITORY / "tools/documentation.py"
NEEDED = ("mkdocs", "material", "mkdocstrings_handlers", "mkdocs_click")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Whoever imports TensorFlow meanwhile fails."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        pytest.skip(f"the extra `docs` is not installed: there is no {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("documentation")
    (folder / "tensorflow.py").write_text("raise ImportError('the site is built without TensorFlow')\n", "utf-8")
    out = folder / "site"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, str(TOOL), "--out", str(out), "--work", str(folder / "sources")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


class Page(HTMLParser):
    """What a page refers to, and the names of its places."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """One tag."""
        given = dict(attributes)
        self.targets += [target for name in ("href", "src") if (target := given.get(name))]
        self.places.add(given.get("id") or "")


def pages_of(site: Path) -> dict[str, Page]:
    """All pages by their addresses; that for what is not found has addresses of a server."""
    paths = (path for path in sorted(site.rglob("*.html")) if path.name != "404.html")
    return {path.as_uri(): Page(path) for path in paths}


def broken_links(site: Path) -> list[str]:
    """References to files or places of the site that are not there."""
    pages = pages_of(site)
    broken = []
    for address, page in pages.items():
        for target in page.targets:
            url, place = urldefrag(urljoin(address, target))
            if url.startswith("file:") and (
                not Path(unquote(url.removeprefix("file://"))).is_file()
                or (url in pages and unquote(place) not in pages[url].places and not place.startswith("__"))
            ):
                broken.append(f"{Path(address).name}: {target}")
    return broken


def test_links_lead_somewhere(site: Path) -> None:
    """Also those to places in a page, pictures, and what the theme adds."""
    assert len(pages_of(site)) > 30
    assert broken_links(site) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    """The check above can fail."""
    (tmp_path / "a.html").write_text("<p id=x><a href=b.html#y></a><a href=#x></a><img src=c.png>", "utf-8")
    (tmp_path / "b.html").write_text("<p id=z><a href=a.html#x></a><a href=https://example.com/d></a>", "utf-8")
    assert broken_links(tmp_path) == ["a.html: b.html#y", "a.html: c.png"]


def public_names() -> list[str]:
    """What users may use, as `module.name`."""
    import recgraph as rg

    distribute = importlib.import_module("recgraph.distribute")  # rg.distribute is a function of it
    modules = (rg, rg.data, distribute, rg.errors, rg.keras, rg.models, rg.testing, rg.trees)
    return [f"{module.__name__}.{name}" for module in modules for name in module.__all__]


def test_the_reference_has_every_public_name(site: Path) -> None:
    """With its documentation."""
    pages = [Page(path) for path in (site / "reference").glob("*.html")]
    places = {place for page in pages for place in page.places}
    names = public_names()
    assert len(names) > 90
    titles = {f"recgraph.{name}": f"{name}.html" for name in ("errors", "levels")}  # pages about all of them
    missing = [
        name
        for name in names
        if not any(place == name or place.endswith(f".{name.split('.')[-1]}") for place in places)
        and not (site / "reference" / titles.get(name, "none")).exists()
    ]
    assert missing == []


SPECIAL = {"__call__", "__exit__", "__len__", "__str__"}
# Of a class that users get from others, under the name of its module.
INNER = {"function", "speculate", "coexec", "optimize"}


def test_the_reference_has_public_names_alone(site: Path) -> None:
    """Nothing of what a class does for other modules of ours is there."""
    pages = [Page(path) for path in (site / "reference").glob("*.html")]
    places = [place for page in pages for place in page.places if place.startswith("recgraph.")]
    hidden = [p for p in places if any(part.startswith("_") and part not in SPECIAL for part in p.split("."))]
    assert hidden == []
    names = {name.removeprefix("recgraph.") for name in public_names()}
    unknown = [
        place
        for place in (place.removeprefix("recgraph.") for place in places)
        if place.split(".")[0] not in INNER and not {place, *prefixes(place)} & names
    ]
    assert unknown == []
    assert not {"recgraph.keras.SubGraphLayer.told", "recgraph.distribute.Cluster.part_ways"} & {*places}


def prefixes(name: str) -> list[str]:
    """What a dotted name is a part of, and without the module that has the name of its function."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))] + [".".join([parts[0], *parts[2:]])]


def test_the_reference_has_the_command(site: Path) -> None:
    """Each subcommand, with its options."""
    text = (site / "reference/command.html").read_text(encoding="utf-8")
    for part in ("recgraph train", "recgraph data parse", "--learning-rate", "--max-words"):
        assert part in text


def test_the_figures_are_those_of_the_benchmarks(site: Path) -> None:
    """Every median of the results is on a page."""
    import json

    text = "".join(path.read_text(encoding="utf-8") for path in (site / "benchmarks/figures").glob("*.html"))
    results = json.loads((REPOSITORY / "benchmarks/results/sst.json").read_text(encoding="utf-8"))["results"]
    medians = [series["median"] for case in results for series in case["series"].values()]
    assert len(medians) > 100
    assert [median for median in medians if f">{median:,.0f} <small>" not in text] == []


def test_a_broken_link_in_a_page_fails_the_build(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """To a file and to a place in one."""
    monkeypatch.syspath_prepend(TOOL.parent)
    sources = importlib.import_module("documentation").Sources(tmp_path / "sources")
    sources.put("docs/tour.md", "# Tour\n\n[one](nowhere.md) [other](gallery.md#nowhere)\n")
    with pytest.raises(subprocess.CalledProcessError):
        sources.build(tmp_path / "site")
    told = capfd.readouterr().err
    assert "nowhere.md" in told
    assert "'gallery.md#nowhere'" in told


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, *_: Any) -> None:
        """Does nothing."""


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The address of a server of this machine that has the site."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, as the system has it."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("there is no Chromium (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="the extra `docs` is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page in the browser, with everything that goes wrong in it; requests to other machines are not made."""

    def __init__(self, browser: Any, home: str, **options: Any) -> None:
        self.home, self.faults = home, list[str]()
        self.page = browser.new_context(**options).new_page()
        self.page.route(lambda url: not url.startswith((home, "data:", "blob:")), self._refuse)
        self.page.on("console", lambda message: self._note(message.type in ("error", "warning"), message.text))
        self.page.on("pageerror", lambda error: self._note(True, str(error)))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", lambda response: self._note(response.status >= 400, f"{response.url} is missing"))

    def _refuse(self, route: Any) -> None:
        self._note(True, f"asks for {route.request.url}")
        route.abort()

    def _failed(self, request: Any) -> None:
        # What is given up because the page is left is no fault.
        self._note(request.failure != "net::ERR_ABORTED", f"{request.url} failed")

    def _note(self, is_fault: bool, text: str) -> None:
        if is_fault:
            self.faults.append(text)

    def open(self, name: str) -> list[str]:
        """Opens a page to its end, and gives what was wrong."""
        self.faults.clear()
        self.page.goto(self.home + name)
        self.page.wait_for_timeout(50)  # for what its scripts begin when it is there
        return [f"{name}: {fault}" for fault in self.faults]


PHONE = {"viewport": {"width": 390, "height": 844}}
DARK = {"color_scheme": "dark"}


@pytest.mark.parametrize("options", [DARK, pytest.param(PHONE, marks=pytest.mark.long)], ids=["dark", "phone"])
def test_pages_open_in_a_browser(site: Path, served: str, browser: Any, options: dict[str, Any]) -> None:
    """Without an error in its console, a request that fails, or one that leaves the machine; none is too wide."""
    visit = Visit(browser, served, **options)
    wrong = []
    for path in sorted(site.rglob("*.html")):
        name = str(path.relative_to(site))
        wrong += visit.open(name)
        if visit.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wrong.append(f"{name}: is wider than the window")
        assert visit.page.locator("h1").first.is_visible()
    scheme = visit.page.evaluate("document.body.getAttribute('data-md-color-scheme')")
    assert scheme == ("slate" if options is DARK else "default")
    assert wrong == []


def test_a_page_with_faults_is_found(browser: Any, tmp_path: Path) -> None:
    """The check above can fail."""
    (tmp_path / "page.html").write_text("<img src=none.png><img src='http://192.0.2.1/'><script>x.y</script>", "utf-8")
    faults = "\n".join(Visit(browser, tmp_path.as_uri() + "/").open("page.html"))
    for text in ("none.png failed", "asks for http://192.0.2.1/", "x is not defined"):
        assert text in faults


def is_listing(address: str) -> bool:
    """Whether a page is a file of code."""
    return address.removesuffix(".html").endswith((".py", ".cc", ".h", ".txt", ".cff", "Dockerfile"))


@pytest.mark.parametrize("word", ["keras", "main", "install", "TreeLayer"])
def test_the_search_finds_pages_before_listings(served: str, browser: Any, word: str) -> None:
    """Who looks for a word wants to read about it first."""
    visit = Visit(browser, served)
    visit.open("docs/tour.html")
    visit.page.locator("input.md-search__input").click()
    visit.page.keyboard.type(word)
    visit.page.locator(".md-search-result__item").first.wait_for()
    found = visit.page.locator(".md-search-result__item").evaluate_all("all => all.map(e => e.querySelector('a').href)")
    listings = [is_listing(address.split("?")[0].split("#")[0]) for address in found]
    assert not listings[0]
    assert listings == sorted(listings)


@pytest.mark.parametrize("way", ["served", "as a file"])
def test_the_search_finds_words(site: Path, served: str, browser: Any, way: str) -> None:
    """Also without a server."""
    home = served if way == "served" else site.as_uri() + "/"
    visit = Visit(browser, home)
    assert visit.open("docs/tour.html") == []
    visit.page.locator("input.md-search__input").click()
    visit.page.keyboard.type("pullback")
    found = visit.page.locator(".md-search-result__item a[href*='docs/glossary.html']").first
    found.click()
    visit.page.wait_for_url("**/docs/glossary.html*")
    assert visit.faults == []
