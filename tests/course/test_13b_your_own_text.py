"""Notebook 13b: its blanks, its widget, its predictions, and the commands that it tells."""

import re
from pathlib import Path

import pytest
import torch
from page import Page

from minitxl.__main__ import main
from minitxl.course.checks import copies, recital
from minitxl.course.checks import units as checks
from minitxl.experiments import samples
from minitxl.figures.positions.encodings import by_place
from minitxl.figures.training.units import bits_of_bytes, perplexity_units

PAGE = Page("13b_your_own_text")
BLANKS = {
    "word-perplexity": ("word-text", checks.check_per_word),
    "recited": ("copy-text", recital.check_recited),
    "longest-copy": ("copy-find-text", copies.check_longest_copy),
    "beginnings": ("exercise-beginnings", recital.check_with_pasts),
    "bits-per-byte": ("exercise-bits", checks.check_bits_per_byte),
}


def solution(cell):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.cells[cell], flags=re.DOTALL)
    return code


@pytest.mark.parametrize("blank", BLANKS)
def test_the_folded_solution_is_right_and_the_stub_is_blank(blank):
    text, check = BLANKS[blank]
    stub = PAGE.cells[blank].partition("\n\n\n")[0]
    name = re.search(r"def (\w+)", stub)[1]
    assert check(PAGE.run(solution(text), torch=torch)[name]).right
    assert check(PAGE.run(stub)[name]).word == "blank"


def test_the_cells_below_the_blanks_run_on_the_readers_functions_if_they_are_right():
    given = {
        "word-perplexity": ("word_perplexity", checks.solution_per_word),
        "recited": ("recited", recital.solution_recited),
        "longest-copy": ("longest_copy", samples.longest_copy),
        "beginnings": ("with_pasts", recital.solution_with_pasts),
    }
    for blank, (name, package) in given.items():
        assert PAGE.run(blank)[name] is package
        mine = PAGE.cells[blank].replace("raise NotImplementedError", "return solution(*given)")
        mine = re.sub(rf"def {name}\([^)]*\)", f"def {name}(*given)", mine)
        assert PAGE.run(mine, solution=package)[name].__name__ == name
        assert PAGE.run(mine, solution=lambda *given: 0)[name] is package


def test_the_exercise_s_two_models_are_compared_as_the_solution_says():
    found = PAGE.run(solution("exercise-bits"))["bits_per_byte"](20, 1000, 4200)
    assert (
        "`bits_per_byte(20, 1000, 4200)` is 1.03, so the model of tokens is better, by 0.07"
        in PAGE.cells["exercise-bits"]
    )
    assert (round(found, 2), round(1.1 - found, 2), round(2**1.1, 1)) == (1.03, 0.07, 2.1)


def test_texts_whose_words_are_mixed_share_less_with_their_source_than_the_texts_do():
    texts = ["the cat sat on the mat and the dog sat on the log " * 3, "one two three four five six seven"]
    found = PAGE.run(solution("exercise-shuffled"), people=texts)["mixed"]
    assert len(found) == len(texts)
    for mixed, text in zip(found, texts, strict=True):
        assert sorted(mixed.split()) == sorted(text.split())
        assert len(samples.longest_copy(mixed, text)) < len(text)
        assert mixed.split() != text.split()
    assert copies.check_mixed(found, texts).right
    assert PAGE.run("mixed", people=texts)["mixed"] is None


TEXTS = [
    "the cat sat on the mat and the dog sat on the log",
    "one two three four five six seven eight nine ten",
]
MIXED = [
    "log sat the on dog the and mat the sat cat on the",
    "six one ten two nine four eight three seven five",
]


@pytest.mark.parametrize(
    ("mixed", "sentence"),
    [
        (None, "there is nothing here yet"),
        (MIXED[0], "a list of texts, one for each in people, got str"),
        (MIXED[:1], "a text for each of the 2 in people, got 1"),
        (
            [text.split() for text in MIXED],
            "text 0: join the words to a text, with blanks between them, got list",
        ),
        ([text[::-1] for text in TEXTS], "text 0: the characters are mixed: mix the words"),
        ([MIXED[0].replace("the on", "theon"), MIXED[1]], "text 0: the words are run together or cut"),
        ([MIXED[0], MIXED[1].replace("six", "ten")], "text 1: some words are there more or less often"),
        ([MIXED[0], MIXED[1].replace("six", "twelve")], "text 1: it has other words than the text"),
        (
            [" ".join(sorted(text.split())) for text in TEXTS],
            "the words are sorted, so equal ones stand together",
        ),
        ([" ".join(text.split()[::-1]) for text in TEXTS], "the words are in the reverse order"),
        (TEXTS, "most words stand before the same word as in the texts: mix the words of each text"),
        (
            [f"log {TEXTS[0][:-4]}", f"ten {TEXTS[1][:-4]}"],
            "most words stand before the same word as in the texts",
        ),
    ],
)
def test_texts_that_are_not_mixed_by_words_get_a_sentence_of_their_own(mixed, sentence):
    verdict = copies.check_mixed(mixed, TEXTS)
    assert not verdict.right
    assert verdict.message.startswith(sentence)
    assert verdict.blank == (mixed is None)


def test_texts_without_blanks_have_no_words_to_mix():
    assert "go on without this exercise" in copies.check_mixed(["是的的", "好的"], ["的是的", "的好"]).message


def test_a_longest_copy_that_is_none_where_nothing_is_shared_is_told_so():
    verdict = copies.check_longest_copy(lambda text, source: samples.longest_copy(text, source) or None)
    assert (verdict.right, verdict.blank) == (False, False)
    assert 'return the empty text, ""' in verdict.message
    assert copies.check_longest_copy(lambda text, source: None).blank


def test_mixed_words_are_right_whatever_stands_between_them():
    assert copies.check_mixed(MIXED, TEXTS).right
    assert copies.check_mixed(tuple(text.replace(" ", "\n ") for text in MIXED), TEXTS).right
    assert copies.check_mixed([*MIXED, "two words"], [*TEXTS, "two words"]).right  # by chance


def test_the_answers_of_the_predictions_are_what_is_counted_and_stored():
    word, short, copy, real = checks.predictions.questions
    assert word.answer == checks.solution_per_word(2.0, "words ") == 2**12
    pattern = r"assert max\(most\[.the model., .read.\]\) <= (\d+) < min\(most\[.people., .read.\]\)"
    asserted = re.search(pattern, PAGE.cells["samples-table"])
    assert f"(up to {asserted[1]} characters)" in PAGE.cells["predict"]
    assert short.answer == "less"
    assert "1 < short < long - 5 for short, long in after_prompt.values()" in PAGE.cells["prompt-lengths"]
    assert copy.answer == "a word or two"
    assert real.answer == "longer"


@pytest.mark.parametrize("guess", [4, 12, 24, 64])
def test_a_wrong_perplexity_of_a_word_gets_its_own_sentence(guess):
    word, *_ = checks.predictions.questions
    verdict = word.judge(guess)
    assert not verdict.right
    assert "4096" in verdict.message
    assert verdict.message != word.judge(7).message


@pytest.mark.parametrize(("bits", "size"), [(2.0, 6), (1.0, 4), (1.9, 8)])
def test_the_controls_draw_the_reader_s_perplexity(bits, size):
    source = PAGE.cells["widget"].partition("\n\n\nexplore(")[0]
    scope = PAGE.run(source, word_perplexity=checks.solution_per_word, perplexity_units=perplexity_units)
    axes = scope["draw"](bits, size).figure.axes[0]
    marked = [line.get_xydata().tolist() for line in axes.lines if len(line.get_xdata()) == 1]
    assert marked == [
        [[bits, pytest.approx(2**bits)]],
        [[bits, pytest.approx(2 ** (bits * size))]],
    ]


def test_the_bars_are_the_bits_of_each_byte_and_their_title_shares_the_sum():
    drawn = bits_of_bytes({"text": "to be\n", "bits": [4.0, 1.0, 2.0, 3.0, 1.5, 0.5]})
    (axes,) = drawn.figure.axes
    assert [bar.get_height() for bar in axes.patches] == [4.0, 1.0, 2.0, 3.0, 1.5, 0.5]
    assert [label.get_text() for label in axes.get_xticklabels()] == list("to␣be↵")
    assert axes.get_title(loc="left") == "6 bytes take 12.0 bits: 2.00 for a byte, 6.0 for a word"
    assert "2.00 for each of 6 bytes, 6.0 for each of 2 words" in drawn.alt


def test_bars_of_standard_errors_stand_around_their_curve():
    curves = {"read": [1.0, 8.0], "not read": [0.5, 0.25]}
    about = {
        "places": [1, 2],
        "errors": {"read": [0.25, 2.0]},
        "title": "Recited",
        "xlabel": "",
        "ylabel": "",
    }
    (axes,) = by_place(about | {"curves": curves}).figure.axes
    (bars,) = (segments.get_segments() for segments in axes.collections)
    assert [bar.tolist() for bar in bars] == [[[1, 0.75], [1, 1.25]], [[2, 6], [2, 10]]]
    assert axes.get_title(loc="left") == "Recited"


def test_a_text_without_blanks_has_no_perplexity_of_words_and_does_not_stop_the_notebook():
    source = PAGE.cells["own-scores"]
    source = source[source.index("def of_a_word") :].partition("\n\n\n")[0]
    scope = PAGE.run(source, word_perplexity=checks.solution_per_word, scored="是" * 300, word_bytes=900)
    assert scope["of_a_word"](2.5) == "no words"
    assert (
        PAGE.run(source, word_perplexity=checks.solution_per_word, scored="ab cd ", word_bytes=3)[
            "of_a_word"
        ](2.0)
        == f"{2**6:.1e}"
    )


TINY = "--n-layer 1 --d-model 16 --n-head 2 --d-head 8 --d-inner 32 --batch 4 --seg-len 8 --warmup 2 "
TINY += "--validate-every 3 --validate-tokens 100"


def test_the_commands_for_a_text_of_your_own_work_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("my.txt").write_text("The cat sat on the mat. The dog sat on the log.\n" * 100)
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.cells["own-text"], flags=re.DOTALL)
    train, evaluate, generate = block.splitlines()
    main(train.replace("--steps 5000", "--steps 6").split()[1:] + TINY.split())
    assert "trained for 6 steps" in capsys.readouterr().out
    main(evaluate.split()[1:])
    assert "bits per byte" in capsys.readouterr().out
    words = generate.replace('"The "', "The").replace("--length 400", "--length 9").split()[1:]
    main(words)
    assert capsys.readouterr().out.startswith("The")
