"""Text as tokens and back: bytes, characters, words; and what a run keeps of it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitxl.data.tokenizer import Tokenizer, Vocabulary, from_counts, read_vocabulary

WORDS = Tokenizer("words", Vocabulary(("<eos>", "<unk>", "the", "cat"), "<unk>"))
LETTERS = Tokenizer("characters", Vocabulary(tuple(" aé\n")))
SENTENCES = Tokenizer("words", Vocabulary(("<S>", "<UNK>", "to", "be"), "<UNK>"))


def there_and_back(spelled, text):
    return "".join(spelled.decode(spelled.encode(text).tolist()))


def test_bytes_come_back_as_they_were_typed_whatever_they_are():
    assert Tokenizer().encode("é\udcff").tolist() == [0xC3, 0xA9, 0xFF]
    assert there_and_back(Tokenizer(), "née\nfoo") == "née\nfoo"
    assert list(Tokenizer().decode([0xC3, 0xA9, 0xC3])) == ["", "é", "", "\ufffd"]


def test_characters_come_back_and_others_are_refused():
    assert there_and_back(LETTERS, "aé a\n") == "aé a\n"
    with pytest.raises(ValueError, match="made of the vocabulary's 4 symbols, got 'z'"):
        LETTERS.encode("az")


def test_an_unknown_character_of_a_prompt_is_named_with_its_place():
    with pytest.raises(ValueError, match=r"4 symbols, got 'z' as character 3 of 'aéza'$"):
        LETTERS.encode("aéza")


def test_a_line_break_is_the_word_eos_and_an_unknown_word_is_unk():
    assert WORDS.encode("the dog\nthe cat").tolist() == [2, 1, 0, 2, 3]
    assert there_and_back(WORDS, "the dog\nthe cat") == "the <unk> \nthe cat "


def test_a_line_break_in_one_billion_words_ends_a_sentence_and_begins_the_next():
    assert SENTENCES.encode("to be\nbe").tolist() == [2, 3, 0, 0, 3]
    assert there_and_back(SENTENCES, "to be\nbe") == "to be \nbe "
    assert "".join(SENTENCES.decode([0, 2, 0, 0, 3, 0])) == "\nto \nbe \n"


def test_a_token_is_called_what_it_is():
    assert [one.token for one in (Tokenizer(), LETTERS, WORDS)] == ["byte", "character", "word"]
    assert [str(one) for one in (Tokenizer(), LETTERS, WORDS)] == ["256 bytes", "4 characters", "4 words"]


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
        assert read_vocabulary(path) == held


@pytest.mark.parametrize(
    "text",
    [
        *("", "[1]", "{}", "\xff", "[" * 100_000, '{"symbols": 3, "unknown": null}'),
        '{"symbols": ["a", 3], "unknown": null}',
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, text):
    path = tmp_path / "vocabulary.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"vocabulary\.json:? .*must be"):
        read_vocabulary(path)


def test_a_vocabulary_in_whose_file_a_symbol_became_another_is_refused(tmp_path):
    path = tmp_path / "vocabulary.json"
    Vocabulary(("a", "o")).write(path)
    path.write_text(path.read_text().replace('"o"', '"m"'))
    with pytest.raises(
        ValueError, match=r"vocabulary\.json is damaged: its symbols must be those of its SHA-256"
    ):
        read_vocabulary(path)


def test_a_symbol_that_no_file_can_hold_is_refused():
    with pytest.raises(ValueError, match=r"must hold what UTF-8 can write, got '\\udcff'$"):
        Vocabulary(("a", "b\udcff"))


def test_a_symbol_twice_or_an_unknown_that_is_missing_is_refused():
    with pytest.raises(ValueError, match="each symbol once, got 2 symbols, 1 of them different"):
        Vocabulary(("a", "a"))
    with pytest.raises(ValueError, match="unknown must be one of the vocabulary's symbols, got b"):
        Vocabulary(("a",), unknown="b")
