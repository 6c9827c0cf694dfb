"""What trees are read from of spaCy, for environments without it: documents with given heads, and their tokens.

`spacy.tokens.Doc` takes the same arguments, and its tokens have the same attributes.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Sequence
from typing import Any


class Underscore:
    """What users write on a token."""

    def set(self, name: str, value: Any) -> None:
        """Writes a value."""
        setattr(self, name, value)


class Token:
    """A word of a document."""

    def __init__(self, doc: Doc, i: int) -> None:
        self.doc, self.i = doc, i
        self.text, self.dep_, self.pos_ = doc.words[i], doc.deps[i], doc.pos[i]
        self.lemma_, self.tag_ = "", ""
        self._ = doc.underscores[i]

    @property
    def head(self) -> Token:
        """The word that it depends on, or itself; an object of its own each time, as spaCy gives."""
        return Token(self.doc, self.doc.heads[self.i])

    @classmethod
    def set_extension(cls, name: str, default: Any = None) -> None:
        """Declares a name that is written on tokens."""


class Doc:
    """A text that was parsed, if it has heads."""

    def __init__(
        self,
        vocab: Any,
        words: Sequence[str],
        heads: Sequence[int] | None = None,
        deps: Sequence[str] | None = None,
        pos: Sequence[str] | None = None,
    ) -> None:
        self.words, self.is_parsed = list(words), deps is not None
        self.heads = list(range(len(self.words))) if heads is None else list(heads)
        self.deps = [""] * len(self.words) if deps is None else list(deps)
        self.pos = [""] * len(self.words) if pos is None else list(pos)
        self.underscores = [Underscore() for _ in self.words]

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, i: int) -> Token:
        return Token(self, range(len(self.words))[i])

    def __str__(self) -> str:
        return " ".join(self.words)

    def has_annotation(self, name: str) -> bool:
        """Whether the text was parsed."""
        return self.is_parsed


def modules() -> dict[str, types.ModuleType]:
    """The modules that `spacy` consists of here; those of spaCy itself where it is installed."""
    try:
        return {name: importlib.import_module(name) for name in ("spacy", "spacy.tokens", "spacy.vocab")}
    except ImportError:
        made = {name: types.ModuleType(name) for name in ("spacy", "spacy.tokens", "spacy.vocab")}
        made["spacy.tokens"].Doc, made["spacy.tokens"].Token = Doc, Token  # type: ignore[attr-defined]
        made["spacy.vocab"].Vocab = object  # type: ignore[attr-defined]
        made["spacy"].tokens, made["spacy"].vocab = made["spacy.tokens"], made["spacy.vocab"]  # type: ignore[attr-defined]
        return made
