"""Text as tokens and back: bytes, characters, words; and what a run keeps of it."""

import pytest

from minitxl.data import tokenizer
from minitxl.data.tokenizer import Tokenizer
from minitxl.data.vocabulary import Vocabulary

WORDS = Tokenizer("words", Vocabulary(("<eos>", "<unk>", "the", "cat"), "<unk>"))
LETTERS = Tokenizer("characters", Vocabulary(tuple(" aé\n")))


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


def test_a_line_break_is_the_word_eos_and_an_unknown_word_is_unk():
    assert WORDS.encode("the dog\nthe cat").tolist() == [2, 1, 0, 2, 3]
    assert there_and_back(WORDS, "the dog\nthe cat") == "the <unk> \nthe cat "


@pytest.mark.parametrize("spelled", [Tokenizer(), LETTERS, WORDS])
def test_a_run_keeps_its_spelling_and_refuses_another(spelled, tmp_path):
    spelled.write(tmp_path)
    spelled.check(tmp_path)
    assert tokenizer.read(tmp_path) == spelled
    for other in (Tokenizer(), LETTERS, Tokenizer("words", Vocabulary(("<eos>", "else")))):
        if other != spelled:
            sentence = f"must have the {spelled.name} of the run in .*, got {other.name}; for another"
            with pytest.raises(ValueError, match=sentence):
                other.check(tmp_path)
    assert [one.name for one in (Tokenizer(), LETTERS, WORDS)] == ["bytes", "4 characters", "4 words"]


def test_a_run_that_begins_in_a_folder_leaves_no_other_spelling_there(tmp_path):
    for spelled in (WORDS, LETTERS, Tokenizer()):
        spelled.write(tmp_path)
        assert tokenizer.read(tmp_path) == spelled


def test_a_token_is_called_what_it_is():
    assert [one.token for one in (Tokenizer(), LETTERS, WORDS)] == ["byte", "character", "word"]
