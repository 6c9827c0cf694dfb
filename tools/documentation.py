"""Makes the site with the documentation: collects its pages in `build/documentation`, and has MkDocs build `site/`.

    python tools/documentation.py --out site

`make docs` does that. Pages lie as in the repository: what the README links to, it links to on the site. A file of code
that a page links to becomes a page with a listing. Pages about public names are made from the docstrings, which are
read and not run, those about the command from its own help, and those with figures from `benchmarks/results`. So
neither TensorFlow nor the op library is needed. Broken links and anchors are errors.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import figures

REPOSITORY = Path(__file__).parents[1]
WRITTEN = (".", "docs", "data", "benchmarks", "cc", "recgraph/*")  # folders with pages that people write
ALONE = ("README.md", "docs/tour.md")  # pages without others in their part of the site
ASSETS = ("docs/images", "docs/site")
CONFIGURATION = "docs/site/mkdocs.yml"
MAPPED = ("models", "data", "benchmarks")  # folders of packages that are installed below recgraph
# By suffix, or by name for files without one.
LANGUAGES = {
    ".py": "python",
    ".cc": "cpp",
    ".h": "cpp",
    ".txt": "text",
    ".cff": "yaml",
    "Dockerfile": "docker",
}
# How much a page counts in the search, beside 1 for all others: what explains before what lists.
BOOSTS = {"README.md": 2, "docs": 2, "CHANGELOG.md": 0.2, "benchmarks/RESULTS.md": 0.5, "recgraph": 0.5, "cc": 0.5}
LISTING = 0.0001  # a word in its title counts less than one in the text of a page
LINK = re.compile(r"(?<=\]\()[^)#\s:]+(?=[)#])")

# Pages about names at the top of the package: their titles, and what is on them.
NAMES = {
    "subgraphs": ("SubGraphs", "Graph functions that may call themselves.", ["SubGraph", "subgraph", "batch"]),
    "functions": (
        "Imperative programs",
        "Python functions and loops as graphs. The guides say what is assumed and checked "
        "([speculation](../docs/speculation.md)) and how Python runs beside its graph "
        "([co-execution](../docs/coexecution.md)).",
        ["function", "function.Function", "speculation", "speculate.Optimizations", "speculate.Speculation", "steps"]
        + ["coexec.steps.Steps", "coexec.profile.StepProfile"],
    ),
    "optimize": (
        "Optimization",
        "Anybody's functions and SavedModels, made faster by [substitutions](../docs/substitution.md).",
        ["optimize", "optimize.bridge.functions.OptimizedFunction"],
    ),
    "draw": ("Pictures", "Drawn with matplotlib.", ["draw"]),
}
# Names of modules, too; in Python the functions win.
SHADOWED = {
    "function": "function.function",
    "draw": "draw.draw",
    "optimize": "optimize.bridge.functions.optimize",
    "steps": "coexec.steps.steps",
}
# Pages about the modules whose members are public.
MODULES = {"errors": "Errors", "testing": "Testing"}
# Pages about packages that collect public names of their modules.
COLLECTIONS = {
    "keras": "Keras",
    "levels": "Levels",
    "trees": "Your own trees",
    "distribute": "Distribution",
    "data": "Data",
    "models": "Models",
}
# How names are shown: members that are public in Python and of no use to a user are left out, and those that a class
# has from its base are there.
OPTIONS = {
    "SubGraph": "members: [__call__, map, input, declared_arguments, output, inputs, outputs, explain, report]\n"
    "inherited_members: true",
    "function.Function": "members: [__call__, explain]",
    "speculate.Speculation": "members: [functions, explain]\nmerge_init_into_class: false",
    "coexec.steps.Steps": "members: [explain, timing]",
    "coexec.profile.StepProfile": "members: [python, graph, python_stalls, graph_stalls]\nmerge_init_into_class: false",
    "optimize.bridge.functions.OptimizedFunction": "members: [explain]\nmerge_init_into_class: false",
    "data.SOURCES": "show_attribute_values: false",
    "distribute.Cluster": "members: [size, index, is_chief, part, mean, scope, broadcast, on_chief, agree, barrier, "
    "watched]\n"
    "merge_init_into_class: false",
    "keras.SubGraphLayer": "members: [body, call, explain, get_config, from_config]",
    "keras.TreeLayer": "members: [node, initial_state, call, explain, compute_mask]\ninherited_members: true",
    "errors": "show_bases: true\nshow_signature: false",
    "models.TreeModel": "",
    "models.PairModel": "",
}
# What all models of a kind implement is on the page once, for the class that all of them derive from.
MODELS_OPTIONS = 'filters: ["!^_", "!^(leaf|compose|node|make_cell|state_sizes)$"]'


class Sources:
    """The folder that MkDocs reads.

    Args:
        folder: replaced by a new one.

    Attributes:
        pages: where the pages are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.pages = folder, folder / "pages"
        shutil.rmtree(folder, ignore_errors=True)
        for assets in ASSETS:
            shutil.copytree(REPOSITORY / assets, self.pages / assets, ignore=shutil.ignore_patterns("*.yml"))
        shutil.copy(REPOSITORY / CONFIGURATION, folder)
        for path in written():
            self.put(path, self._adapted(path))
        self._put_examples()
        pages = reference()
        for name, text in {**pages, "README": contents(pages)}.items():
            self.put(f"reference/{name}.md", text)
        for name, text in figures.pages(REPOSITORY / "benchmarks/results").items():
            self.put(f"benchmarks/figures/{name}.md", text)
        package = folder / "packages/recgraph"  # as it is installed
        package.mkdir(parents=True)
        for place in [*(REPOSITORY / "recgraph").iterdir(), *(REPOSITORY / mapped for mapped in MAPPED)]:
            (package / place.name).symlink_to(place)

    def put(self, path: str | Path, text: str) -> None:
        """Writes a page."""
        place = self.pages / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def _adapted(self, path: Path) -> str:
        """A page of the repository as one of the site: links to code lead to listings, which are made here, too."""

        def on_site(found: re.Match[str]) -> str:
            target = REPOSITORY / path.parent / found[0]
            if target.is_dir():
                return f"{found[0].rstrip('/')}/README.md"
            if target.suffix == ".ipynb":
                self._put_notebook(target.resolve().relative_to(REPOSITORY))
                return f"{found[0]}.md"
            if target.is_file() and language(target):
                self._put_listing(target.resolve().relative_to(REPOSITORY))
                return f"{found[0]}.md"
            return found[0]

        text = LINK.sub(on_site, (REPOSITORY / path).read_text(encoding="utf-8"))
        return settings("navigation" if str(path) in ALONE else "", boost_of(path)) + text

    def _put_listing(self, path: Path) -> None:
        """A file of code as a page."""
        code = (REPOSITORY / path).read_text(encoding="utf-8")
        listing = f"# {path.name}\n\n`{path}`\n\n~~~~~~ {language(path)}\n{code}~~~~~~\n"
        self.put(f"{path}.md", settings("navigation, toc", LISTING) + listing)

    def _put_notebook(self, path: Path) -> None:
        """A notebook as a page."""
        cells = json.loads((REPOSITORY / path).read_text(encoding="utf-8"))["cells"]
        forms = {"code": "~~~~~~ python\n{}\n~~~~~~", "markdown": "{}"}
        shown = [forms[cell["cell_type"]].format("".join(cell["source"])) for cell in cells]
        self.put(f"{path}.md", "\n\n".join(shown) + "\n")

    def _put_examples(self) -> None:
        """All programs of the gallery, each with what it is."""
        lines = ["# Examples", "", "The [gallery](../docs/gallery.md) shows what most of them do.", ""]
        for path in sorted((REPOSITORY / "examples").glob("*.py")):
            self._put_listing(path.relative_to(REPOSITORY))
            lines.append(f"- [{path.name}]({path.name}.md): {summary(path)}")
        for path in sorted((REPOSITORY / "examples").glob("*.ipynb")):
            self._put_notebook(path.relative_to(REPOSITORY))
            lines.append(f"- [{path.name}]({path.name}.md), a notebook")
        self.put("examples/README.md", "\n".join(lines) + "\n")

    def build(self, out: Path) -> None:
        """Has MkDocs write the site into a folder.

        Raises:
            subprocess.CalledProcessError: MkDocs has an error or a warning, such as a link that leads nowhere.
        """
        options = ["--config-file", str(self.folder / "mkdocs.yml"), "--site-dir", str(out)]
        paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]  # of the command, whose help is shown
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NO_MKDOCS_2_WARNING": "1"}
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", *options]
        subprocess.run(command, cwd=REPOSITORY, env=environment, check=True)


def written() -> Iterator[Path]:
    """The pages that people write, relative to the repository."""
    for folder in WRITTEN:
        yield from (path.relative_to(REPOSITORY) for path in sorted(REPOSITORY.glob(f"{folder}/*.md")))


def language(path: Path) -> str | None:
    """In which language a file is, if it is one whose code a page may show."""
    return LANGUAGES.get(path.suffix or path.name)


def boost_of(path: Path) -> float:
    """How much a page counts in the search."""
    return BOOSTS.get(str(path), BOOSTS.get(path.parts[0], 1))


def settings(hidden: str, boost: float) -> str:
    """The beginning of a page that leaves out what is beside others, and counts so much in the search."""
    return f"---\nhide: [{hidden}]\nsearch: {{ boost: {boost} }}\n---\n\n"


def summary(path: Path) -> str:
    """What a module says first of itself."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def directive(name: str, level: int = 2) -> str:
    """What mkdocstrings replaces by the documentation of a public name."""
    last = name.split(".")[-1]
    heading = f"rg.{name}" if name == last else last
    options = OPTIONS.get(name, MODELS_OPTIONS if name.startswith("models.") else "").splitlines()
    lines = [f"heading_level: {level}", f"heading: {heading}", *options]
    return "\n".join([f"::: recgraph.{SHADOWED.get(name, name)}", "    options:", *(f"      {o}" for o in lines), ""])


def folder_of(package: str) -> Path:
    """Where a package is that is imported as a part of recgraph."""
    return REPOSITORY / package if package in MAPPED else REPOSITORY / "recgraph" / package


def collected(package: str) -> dict[str, list[str]]:
    """By module, the names that a package imports from its modules and exports; by "", its own."""
    tree = ast.parse((folder_of(package) / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        alias.name: (node.module or "").split(".")[-1]
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    (exported,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    found: dict[str, list[str]] = {}
    for name in [*imported, *(each for each in exported if each not in imported)]:
        if name in exported:
            found.setdefault(imported.get(name, ""), []).append(name)
    return found


def reference() -> dict[str, str]:
    """The pages about public names, by the names of their files."""
    pages = {}
    for page, (title, text, names) in NAMES.items():
        pages[page] = "\n".join([f"# {title}\n", f"{text}\n", *map(directive, names)])
    for module, title in MODULES.items():
        text = directive(module)
        pages[module] = f"# {title}\n\n{text}      show_root_heading: false\n      show_root_toc_entry: false\n"
    for package, title in COLLECTIONS.items():
        parts = [f"# {title}\n", f"{summary(folder_of(package) / '__init__.py')}\n"]
        for module, names in collected(package).items():
            path = folder_of(package) / f"{module}.py"
            parts.append(f"## {module}\n\n{summary(path)}\n" if module else "## By name\n")
            full = [f"{package}.{name}.{name}" if name == module else f"{package}.{name}" for name in names]
            parts += [directive(name, 3) for name in full]
        pages[package] = "\n".join(parts)
    pages["command"] = (
        "# The command\n\n::: mkdocs-click\n    :module: recgraph_command\n    :command: main\n"
        "    :prog_name: recgraph\n    :depth: 1\n    :style: plain\n"
    )
    return pages


def contents(pages: dict[str, str]) -> str:
    """The first page of the reference: all pages, and the names on each."""
    lines = ["# Reference", "", "`import recgraph as rg` brings all of these.", ""]
    for page, text in pages.items():
        title = text.splitlines()[0].removeprefix("# ")
        names = [] if page in MODULES else re.findall(r"^::: recgraph\.(\S+)", text, re.MULTILINE)
        about = ", ".join(f"[`{name.split('.')[-1]}`][recgraph.{name}]" for name in names)
        lines.append(f"- **[{title}]({page}.md)**{': ' if about else ''}{about}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Builds the site, and says where it is."""
    parser = argparse.ArgumentParser(description="Builds the site with the documentation.")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "site", help="folder of the site")
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build/documentation", help="folder of its sources")
    options = parser.parse_args()
    out = options.out.resolve()
    try:
        Sources(options.work.resolve()).build(out)
    except subprocess.CalledProcessError as error:
        sys.exit(f"the site is not complete: {error}")
    print(f"{out / 'index.html'}: {sum(1 for _ in out.rglob('*.html'))} pages")


if __name__ == "__main__":
    main()
