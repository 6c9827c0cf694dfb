"""Movie reviews: both forms on disk, sentences and tokens."""

import collections
import lzma

import pytest

from recgraph.data import Review, ReviewFormatError, escape, read_imdb, review_trees, sentences, tokenize

REVIEWS = [
    Review("neg", 0, 3, "Bad film.<br /><br />Really bad."),
    Review("neg", 2, 1, "One\u0085line, one\u00a0review."),
    Review("neg", 10, 4, "Dull (very)."),
    Review("pos", 1, 9, "Good!"),
]


def write_folder(top, reviews) -> None:
    for label, number, rating, text in reviews:
        folder = top / "aclImdb" / "train" / label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}_{rating}.txt").write_text(text, "utf-8")


def write_tsv(path, reviews) -> None:
    data = "".join("\t".join(map(str, review)) + "\n" for review in reviews).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)


def test_both_forms_give_the_same_reviews_in_the_same_order(tmp_path):
    write_folder(tmp_path / "folder", REVIEWS[::-1])
    write_tsv(tmp_path / "table" / "imdb" / "train.tsv.xz", REVIEWS)
    write_tsv(tmp_path / "plain" / "train.tsv", REVIEWS)
    for form in ("folder", "table", "plain", "folder/aclImdb"):
        assert list(read_imdb(tmp_path / form)) == REVIEWS, form


def test_reviews_without_a_label_are_a_split_of_their_own(tmp_path):
    unlabelled = [Review("unsup", 0, 0, "Some film.")]
    write_folder(tmp_path, unlabelled)
    assert list(read_imdb(tmp_path, "unsup")) == unlabelled


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "2:1: expected label, id, rating and text, separated by tabs, found an empty line"),
        ("neg\t1\t2", "2:1: expected label, id, rating and text, separated by tabs, found 3 fields"),
        ("bad\t1\t2\tx", "2:1: expected the label neg, pos or unsup, found 'bad'"),
        ("neg\tone\t2\tx", "2:5: expected a whole number as id, found 'one'"),
        ("neg\t11\t5\tx", "2:8: expected a rating 1..4 for neg, found '5'"),
        ("pos\t1\tten\tx", "2:7: expected a rating 7..10 for pos, found 'ten'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, message):
    (tmp_path / "train.tsv").write_text(f"neg\t0\t1\tx\n{line}\n")
    with pytest.raises(ReviewFormatError) as caught:
        list(read_imdb(tmp_path))
    assert str(caught.value) == f"{tmp_path / 'train.tsv'}:{message}"


def test_a_malformed_folder_is_named(tmp_path):
    write_folder(tmp_path, REVIEWS)
    (tmp_path / "aclImdb" / "train" / "neg" / "notes.txt").touch()
    with pytest.raises(ReviewFormatError, match=r"expected a file named <id>_<rating>\.txt, found 'notes\.txt'"):
        list(read_imdb(tmp_path))


def test_a_missing_split_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="no test reviews in .* `recgraph data fetch imdb` downloads"):
        read_imdb(tmp_path, "test")
    with pytest.raises(ValueError, match="split must be one of train, test, unsup; found 'dev'"):
        read_imdb(tmp_path, "dev")


def test_sentences_end_at_breaks_and_stops_but_not_at_abbreviations():
    text = "Mr. Smith is bad.  He is<br /><br />not good! Is he, e.g. funny? No.<br>"
    assert sentences(text) == ["Mr. Smith is bad.", "He is", "not good!", "Is he, e.g. funny?", "No."]
    assert sentences("") == sentences(" <br /> ") == []


def test_tokens_are_spelt_as_in_the_treebank():
    assert tokenize('It didn\'t work (at all): "2/10" and *bad*.') == (
        ["It", "did", "n't", "work", "-LRB-", "at", "all", "-RRB-", ":", "``", "2\\/10", "''", "and", "\\*bad\\*", "."]
    )
    assert tokenize("  ") == []


def test_escape_makes_any_word_safe_and_leaves_escaped_ones_alone():
    assert escape("a b(c)[d]/*") == "a_b-LRB-c-RRB--LSB-d-RSB-\\/\\*"
    assert escape("1\\/2") == "1\\/2"


@pytest.mark.parametrize("shape", ["balanced", "moderate", "linear"])
def test_each_sentence_becomes_a_tree_with_the_label_of_its_review(shape):
    trees = list(review_trees(REVIEWS, shape, max_tokens=6))
    assert [(tree.label, tree.tokens) for tree in trees] == [
        (0, ("Bad", "film", ".")),
        (0, ("Really", "bad", ".")),
        (0, ("One", "line", ",", "one", "review", ".")),
        (0, ("Dull", "-LRB-", "very", "-RRB-", ".")),
        (4, ("Good", "!")),
    ]
    assert set(trees[0].labels[:-1]) == {-1}


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_real_reviews_have_their_published_figures(real_data, split):
    if not (real_data / "imdb" / f"{split}.tsv.xz").is_file():
        pytest.skip(f"no imdb/{split}.tsv.xz in the data folder")
    reviews = list(read_imdb(real_data, split))
    assert collections.Counter(review.label for review in reviews) == {"neg": 12_500, "pos": 12_500}
    assert len({review.text for review in reviews}) == {"train": 24_904, "test": 24_801}[split]
    assert max(len(review.text.split()) for review in reviews) == {"train": 2470, "test": 2278}[split]
    assert sum(1 for _ in review_trees(reviews[::500])) > 400
