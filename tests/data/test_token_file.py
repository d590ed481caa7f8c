import os

import numpy as np
import pytest
import torch

from minitxl.data.batching import ContiguousBatches
from minitxl.data.token_file import TokenizerSpec, mapped, symbols, writing


def all_symbols(text: bytes, rule: TokenizerSpec, size: int = 1000) -> list[str]:
    blocks = [text[begin : begin + size] for begin in range(0, len(text), size)]
    return [symbol for block in symbols(blocks, "text", rule) for symbol in block]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_blocks_cut_neither_characters_nor_words_nor_lines(size):
    text = "  één woord\n\nzwei 𝔴örter \n \n end"
    assert all_symbols(text.encode(), TokenizerSpec("characters"), size) == list(text)
    expected = ["één", "woord", ".", ".", "zwei", "𝔴örter", ".", ".", "end", "."]
    assert all_symbols(text.encode(), TokenizerSpec("words", after=(".",)), size) == expected


def test_words_stand_between_what_is_put_before_and_after_each_line():
    rule = TokenizerSpec("words", before=("<S>",), after=("</S>",))
    assert all_symbols(b"a b\nc\n", rule) == ["<S>", "a", "b", "</S>", "<S>", "c", "</S>"]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize("unit", ["words", "characters"])
def test_the_mark_at_the_start_of_a_utf_8_text_is_no_part_of_it_and_elsewhere_is(unit, size):
    text = "the cat \ufeffthe"
    expected = text.split() if unit == "words" else list(text)
    assert all_symbols(text.encode("utf-8-sig"), TokenizerSpec(unit), size) == expected


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("text", "offset", "byte"),
    [
        (b"ab\xe9cd", 2, "e9"),
        (b"\xff", 0, "ff"),
        ("éé".encode() + b"\xc3", 4, "c3"),
        (b"a\xe2\x82z", 1, "e2"),
    ],
)
def test_text_that_is_not_utf_8_is_refused_by_file_and_byte(text, offset, byte, size):
    with pytest.raises(
        ValueError, match=f"^text must be UTF-8 text, got the byte 0x{byte} at offset {offset}$"
    ):
        all_symbols(text, TokenizerSpec("words"))


@pytest.mark.parametrize(
    ("vocab_size", "dtype"),
    [
        (2, torch.uint8),
        (256, torch.uint8),
        (257, torch.uint16),
        (65_536, torch.uint16),
        (65_537, torch.uint32),
    ],
)
def test_tokens_take_the_smallest_type_that_holds_the_vocabulary(tmp_path, vocab_size, dtype):
    with writing(tmp_path / "text.npy", vocab_size) as append:
        append([0, 1])
        append([])
        append([vocab_size - 1])
    stream = mapped(tmp_path / "text.npy")
    assert stream.dtype == dtype
    assert stream.tolist() == [0, 1, vocab_size - 1]
    assert np.load(tmp_path / "text.npy").tolist() == [0, 1, vocab_size - 1]


def test_an_id_beyond_the_type_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(OverflowError), writing(tmp_path / "text.npy", 256) as append:
        append([256])
    assert list(tmp_path.iterdir()) == []


def test_a_text_larger_than_memory_is_mapped_and_cut_into_lanes(tmp_path):
    path, memory = tmp_path / "text.npy", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": (2 * memory,)}
        )
        file.truncate(file.tell() + 2 * memory)  # a hole: nothing but zeros, and hardly any disk
    segments = ContiguousBatches(mapped(path), batch=4, seg_len=8)
    assert segments[len(segments) - 1].tokens.shape == (4, 8)
