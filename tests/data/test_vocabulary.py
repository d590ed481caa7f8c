from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitxl.data import vocabulary
from minitxl.data.vocabulary import Vocabulary, from_counts


def test_the_frequent_stand_before_the_rare_and_ties_as_they_first_appear():
    assert from_counts(Counter(["b", "a", "c", "a", "d", "c", "a"])).symbols == ("a", "c", "b", "d")


def test_first_symbols_come_first_however_rare_and_once():
    held = from_counts(Counter(["a", "a", "<eos>", "b", "b", "b"]), first=("<eos>", "<unk>"))
    assert held.symbols == ("<eos>", "<unk>", "b", "a")


def test_rare_symbols_are_not_held():
    assert from_counts(Counter(["a", "a", "b"]), first=("<unk>",), min_count=2).symbols == ("<unk>", "a")


def test_an_unknown_word_becomes_the_unknown_symbol():
    held = Vocabulary(("<eos>", "<unk>", "a"), unknown="<unk>")
    assert held.encode(["a", "b", "<eos>"]) == [2, 1, 0]


def test_an_unknown_word_is_refused_where_no_symbol_stands_for_it():
    held = from_counts(Counter("aab"), unknown="<unk>")
    assert held.unknown is None
    with pytest.raises(ValueError, match="must be made of the vocabulary's 2 symbols, got 'c'"):
        held.encode("abc")


@given(st.lists(st.text(), min_size=1))
def test_what_is_encoded_is_decoded(symbols):
    held = from_counts(Counter(symbols))
    assert held.decode(held.encode(symbols)) == symbols


@given(symbols=st.sets(st.text(st.characters(codec="utf-8"))))
def test_a_vocabulary_is_read_back(tmp_path_factory, symbols):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.json"
    held = Vocabulary((*symbols, "<none>"), unknown="<none>") if "<none>" not in symbols else None
    if held is not None:
        held.write(path)
        assert vocabulary.read(path) == held


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"symbols": 3, "unknown": null}', "\xff"])
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, text):
    path = tmp_path / "vocabulary.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"vocabulary\.json is not a vocabulary written by minitxl"):
        vocabulary.read(path)


def test_a_symbol_twice_or_an_unknown_that_is_missing_is_refused():
    with pytest.raises(ValueError, match="each symbol once, got 2 symbols, 1 of them different"):
        Vocabulary(("a", "a"))
    with pytest.raises(ValueError, match="unknown must be one of the vocabulary's symbols, got b"):
        Vocabulary(("a",), unknown="b")
