"""Words of the corpora, cut and joined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitxl.data.detokenizer import cut, is_cut, joined
from minitxl.data.tokenizer import Tokenizer, Vocabulary

WORDS = ("<eos>", "<unk>", "do", "n't", "the", "company", "'s", "u.s.", "$", "N", "%", ",", ".", "@-@", "(")
TREEBANK = Tokenizer("words", Vocabulary(WORDS, "<unk>"))


def text_of(words: str) -> str:
    return "".join(joined(f"{word} " if word != "\n" else "\n" for word in words.split(" ")))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("i do n't think it 's so", "i don't think it's so"),
        ("we 'll see , they 're late . \n he 's in", "we'll see, they're late.\nhe's in"),
        ("$ N million or N % of it", "$N million or N% of it"),
        ("a well @-@ known 1 @,@ 000 @.@ 5 km ( 2 mi ) walk", "a well-known 1,000.5 km (2 mi) walk"),
        ('he said " yes " and " no , never " .', 'he said "yes" and "no, never".'),
        ("`` yes '' he said", '"yes" he said'),
        ('an open " quote \n ends " here "', 'an open "quote\nends "here"'),
        ("the <unk> of <unk> , N", "the <unk> of <unk>, N"),
    ],
)
def test_words_are_joined_as_people_write_them(words, text):
    assert text_of(words) == text


@given(st.lists(st.sampled_from([word for word in WORDS if word != "@-@"])))
def test_joining_changes_nothing_but_spaces(words):
    assert text_of(" ".join(words)).replace(" ", "") == "".join(words)


def test_a_piece_is_written_when_its_word_comes():
    pieces = joined(iter(["do ", "n't "]))
    assert next(pieces) == "do"
    assert next(pieces) == "n't"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't", "do n't"),
        ("The company's\n", "The company 's"),
        ("u.s. (the company).", "u.s. ( the company ) ."),
        ("$N, N%", "$ N , N %"),
    ],
)
def test_a_prompt_is_cut_as_the_vocabulary_is(text, words):
    assert cut(text, TREEBANK).split() == words.split()
    assert ("\n" in cut(text, TREEBANK)) == ("\n" in text)


@pytest.mark.parametrize(
    "tokenizer",
    [
        Tokenizer(),
        Tokenizer("words", Vocabulary(("don't", "the", ","))),
        Tokenizer("characters", Vocabulary(("d", "'s"))),
    ],
    ids=["bytes", "words cut at spaces", "characters"],
)
def test_other_tokens_are_left_as_they_are(tokenizer):
    assert not is_cut(tokenizer)
    assert cut("the company's, don't", tokenizer) == "the company's, don't"
