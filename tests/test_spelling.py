"""Text as tokens and back: bytes, characters, words; and what a run keeps of it."""

import pytest

from minitxl import spelling
from minitxl.spelling import Spelling
from minitxl.vocabulary import Vocabulary

WORDS = Spelling("words", Vocabulary(("<eos>", "<unk>", "the", "cat"), "<unk>"))
LETTERS = Spelling("characters", Vocabulary(tuple(" aé\n")))


def there_and_back(spelled, text):
    return "".join(spelled.decode(spelled.encode(text).tolist()))


def test_bytes_come_back_as_they_were_typed_whatever_they_are():
    assert Spelling().encode("é\udcff").tolist() == [0xC3, 0xA9, 0xFF]
    assert there_and_back(Spelling(), "née\nfoo") == "née\nfoo"
    assert list(Spelling().decode([0xC3, 0xA9, 0xC3])) == ["", "é", "", "\ufffd"]


def test_characters_come_back_and_others_are_refused():
    assert there_and_back(LETTERS, "aé a\n") == "aé a\n"
    with pytest.raises(ValueError, match="made of the vocabulary's 4 symbols, got 'z'"):
        LETTERS.encode("az")


def test_a_line_break_is_the_word_eos_and_an_unknown_word_is_unk():
    assert WORDS.encode("the dog\nthe cat").tolist() == [2, 1, 0, 2, 3]
    assert there_and_back(WORDS, "the dog\nthe cat") == "the <unk> \nthe cat "


@pytest.mark.parametrize("spelled", [Spelling(), LETTERS, WORDS])
def test_a_run_keeps_its_spelling_and_refuses_another(spelled, tmp_path):
    spelled.write(tmp_path / "run")
    spelled.write(tmp_path / "run")
    assert spelling.read(tmp_path / "run") == spelled
    if spelled.vocabulary is not None:
        other = Spelling("words", Vocabulary(("<eos>", "else")))
        with pytest.raises(ValueError, match=f"must have the 4 {spelled.unit} of the run in .*, got 2 words"):
            other.write(tmp_path / "run")
        assert spelling.read(tmp_path / "run") == spelled


def test_a_token_is_called_a_word_or_a_character():
    assert [one.token for one in (Spelling(), LETTERS, WORDS)] == ["character", "character", "word"]
