"""Which file of a folder is which split is told by its name, or the folder is refused."""

from pathlib import Path

import pytest

from minitxl.data.splits import splits_of

SPLIT = [
    ("train.txt", "valid.txt", "test.txt"),
    ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"),
    ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"),
    ("train", "validation", "test"),
    ("my-Train.v2.txt", "my-Val.v2.txt", "my-Test.v2.txt"),
    ("news_training.en", "news_dev.en", "news_test.en"),
    ("in/train/text", "in/valid/text", "in/test/text"),
]
NOT_SPLIT = [
    ("a.txt", "b.txt"),
    ("training notes.txt", "b.txt"),
    ("trainer.py", "test_trainer.py", "test_loop.py"),
    ("test.txt", "notes.txt"),
    ("src/model.py", "test/model_test.py"),
    ("contrain.txt", "latest.txt", "devotion.txt"),
]
HALF_SPLIT = [
    ("train1", "train2", "valid1", "test1"),
    ("a_train", "b_valid", "c_test"),
    ("train (1)", "valid (1)", "test (1)"),
    ("training_set.txt", "heldout_set.txt"),
    ("traindata", "validdata", "testdata"),
    ("my_train.txt",),
    ("train.txt",),
    ("train.txt", "valid.txt"),
    ("train.txt", "notes.txt"),
    ("ptb.valid.txt", "ptb.test.txt"),
    ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt", "README"),
    ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt", "ptb.char.train.txt"),
    ("ptb.train.txt", "ptb.valid.txt", "wiki.test.tokens"),
    ("a.train.txt", "b.train.txt", "c.test.txt"),
    ("train/a.txt", "train/b.txt", "test/c.txt"),
]


def splits(names: tuple[str, ...], *, folder: bool = True) -> dict[str, str]:
    paths = [Path("texts", name) for name in names]
    return {str(path.relative_to("texts")): split for path, split in splits_of(paths, folder=folder).items()}


@pytest.mark.parametrize("names", SPLIT)
def test_three_files_named_alike_but_for_the_part_are_the_parts(names):
    assert splits(names) == dict(zip(names, ("train", "valid", "test"), strict=True))


def test_all_files_of_three_folders_named_so_are_the_parts():
    names = ("train/1.txt", "train/2.txt", "valid/1.txt", "test/a/1.txt", "test/2.txt")
    assert splits(names) == dict(zip(names, ("train", "train", "valid", "test", "test"), strict=True))


@pytest.mark.parametrize("names", NOT_SPLIT)
def test_other_files_are_one_text(names):
    assert splits(names) == dict.fromkeys(names, "whole")


@pytest.mark.parametrize("names", HALF_SPLIT)
def test_files_that_look_split_and_do_not_fit_are_refused_and_named(names):
    with pytest.raises(ValueError, match="one file for each of train, valid and test") as refusal:
        splits(names)
    for name in names:
        assert Path(name).name in str(refusal.value)


def test_a_file_that_is_given_alone_is_one_text_whatever_its_name():
    assert splits(("wiki.test.tokens",), folder=False) == {"wiki.test.tokens": "whole"}
    assert splits(("train.txt",), folder=False) == {"train.txt": "whole"}


def test_of_many_files_the_first_are_named_and_the_others_counted():
    names = tuple(f"{number}.train.txt" for number in range(9))
    with pytest.raises(ValueError, match=r"got 0\.train\.txt, .*, 5\.train\.txt and 3 more$"):
        splits(names)
