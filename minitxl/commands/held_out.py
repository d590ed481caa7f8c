"""Remarks on a text that is scored: how much of it the run was trained or validated on."""

from minitxl.data.corpus import Corpus
from minitxl.data.splits import SPLITS, Split
from minitxl.training.run_info import RunInfo


def remarks(corpus: Corpus, split: Split, tokens: int, name: str, info: RunInfo) -> list[str]:
    """Return a sentence for each thing that is known, or cannot be known, of the tokens to score.

    They are the first ``tokens`` of a split; ``name`` is the model's, and ``info`` its run's.
    """
    same_text, same_cut = corpus.sha256 == info.sha256, info.cut_as(corpus.sizes)
    trained, validated = learned_of(corpus, split, tokens, info)
    lines = []
    changed = info.sha256 is not None and not same_text and corpus.name == info.text
    if changed:
        lines.append(
            f"{corpus.name} has changed since the run learned it (sha256 {info.sha256:.12}, now "
            f"{corpus.sha256:.12}): what is scored may be text that the run was trained on"
        )
    if same_text and not same_cut:
        lines.append(f"{corpus.name} is the text of the run, cut into other splits than the run's")
    if trained and info.begun_from:
        least = "at least " if trained < tokens else ""
        whose = f"the training text of the run or of {info.begun_from}"
        lines.append(f"{least}{trained:,} of these tokens are of {whose}")
    elif trained:
        lines.append(f"{trained:,} of these tokens are of the run's training text")
    if validated and (split == "whole" or not (same_text and same_cut)):
        lines.append(f"{validated:,} of these tokens are of the run's validation text")
    if info.begun_from and trained < tokens:
        lines.append(f"not known: what {info.begun_from} was trained on, with whose model the run began")
    elif info.sha256 is None:
        lines.append(f"not known: what {name} was trained on")
    elif not same_text and not trained and not validated and not changed:
        lines.append("not known: whether this text holds pieces of what the run was trained on")
    if same_text and same_cut and split in ("valid", "test"):
        lines.append("not looked for: pieces of the training text that this split repeats")
    return lines


def learned_of(corpus: Corpus, split: Split, tokens: int, info: RunInfo) -> tuple[int, int]:
    """Return how many of a split's first tokens are known to be of the run's training and validation text.

    In the run's own text, however it is cut, their places tell; in another, equal splits.
    """
    begin, end = _places(corpus.sizes, split)
    end = min(end, begin + tokens)
    if corpus.sha256 == info.sha256 and info.sizes:
        trained, validated = (_overlap(begin, end, *_places(info.sizes, own)) for own in ("train", "valid"))
    else:
        validated = _equal(corpus, begin, end, {info.valid_sha256})
        trained = 0
    return max(trained, _equal(corpus, begin, end, set(info.learned))), validated


def _equal(corpus: Corpus, begin: int, end: int, digests: set[str | None]) -> int:
    """Return how many tokens between these places are of splits with one of these digests."""
    if corpus.sha256 in digests:
        return end - begin
    same = [split for split in SPLITS if corpus.split_sha256(split) in digests]
    return sum(_overlap(begin, end, *_places(corpus.sizes, split)) for split in same)


def _overlap(begin: int, end: int, other_begin: int, other_end: int) -> int:
    return max(0, min(end, other_end) - max(begin, other_begin))


def _places(sizes: tuple[int, ...], split: Split) -> tuple[int, int]:
    """Return where a split begins and ends in the whole text."""
    if split == "whole":
        return 0, sum(sizes)
    at = SPLITS.index(split)
    return sum(sizes[:at]), sum(sizes[: at + 1])
