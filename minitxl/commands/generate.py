"""``minitxl generate``."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import torch
import tyro
from tyro.conf import Positional

from minitxl.commands.shared import Device, device_of, path_flag
from minitxl.commands.subject import subject_of
from minitxl.data.detokenizer import cut, is_cut, joined
from minitxl.data.tokenizer import Tokenizer
from minitxl.fast.bfloat16 import Precision
from minitxl.inference import generation
from minitxl.inference.sampling import SamplingOptions

DEFAULT = "def "
"""How a text begins for which there is no prompt."""


@dataclass(frozen=True)
class Generate:
    """Go on with a text, token by token, as a trained model would."""

    folder: Positional[Annotated[Path, path_flag("folder")] | None] = None
    """Folder of the run."""
    released: Annotated[str, path_flag("released", str)] | None = None
    """Instead of a run: a hub repository, as transfo-xl/transfo-xl-wt103, or a folder in its format."""
    best: bool = False
    """Write as the model of the run's best validation would, and not as the last one."""
    prompt: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """How the text begins; "def " without one. May be given several times, for as many texts."""
    length: int = 400
    """Tokens to generate."""
    mem_len: int | None = None
    """Tokens before the last that a token is predicted from; none means those of training: segment and
    memory, or the window."""
    temperature: float = 1.0
    """Below 1 is more careful, 0 always takes the likeliest token."""
    top_k: int | None = None
    """Draw from the k likeliest tokens only."""
    top_p: float | None = None
    """Draw from the fewest likeliest tokens that have this probability together."""
    repetition: float = 1.0
    """Above 1 makes tokens less likely that occur in the recent text, below 1 likelier."""
    repetition_window: int | None = 64
    """How many of the last tokens, the prompt's included, are recent; none means all."""
    apart: bool = False
    """Words: write each word of the vocabulary apart, as the model reads them, and not as people write."""
    stop: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """End a text before this, which is not printed, as in --stop $'\\n\\n'. May be given several times."""
    precision: Precision = "float32"
    """Of the matrix products: bfloat16 on a CUDA GPU, or a CPU with avx512_bf16 or amx_bf16."""
    seed: int = 0
    """Seed of the draws; each further prompt has the next one."""
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""

    def __call__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be 1 or more, got {self.length}")
        device = device_of(self.device)
        subject = subject_of(self.folder, self.released, best=self.best, device=device)
        model, lengths, tokenizer = subject.model, subject.lengths, subject.tokenizer
        if tokenizer is None:
            raise ValueError(f"{subject.name} must hold a vocabulary, got none: its tokens can't be written")
        absolute = model.config.has_absolute_positions
        most = lengths.seg_len - 1 if absolute else lengths.seg_len + lengths.mem_len
        trained = most if lengths.window is None else min(most, lengths.window - 1)
        mem_len = trained if self.mem_len is None else self.mem_len
        options: SamplingOptions = {
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "repetition": self.repetition,
            "repetition_window": self.repetition_window,
            "seed": self.seed,
            "precision": self.precision,
            "clamp_len": lengths.clamp_len,
        }
        prompts = [tokenizer.encode(cut(text, tokenizer)) for text in self.prompt]
        prompts = prompts or [_default_prompt(tokenizer)]
        stop = [tokenizer.encode(cut(text, tokenizer)) for text in self.stop]
        decode = partial(written, tokenizer, apart=self.apart)
        if len(prompts) == 1:
            drawn = generation.draw_tokens(model, prompts, mem_len=mem_len, **options)
            tokens = (int(token) for token in islice(drawn, self.length))
            told = tell(decode(chain(prompts[0].tolist(), generation.until(tokens, stop))))
            explain_unknown(tokenizer, told)
            return
        texts = generation.sample(model, prompts, length=self.length, mem_len=mem_len, stop=stop, **options)
        told = ""
        for index, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
            if index:
                print("-" * 72)
            told += tell(decode(chain(prompt.tolist(), text.tolist())))
        explain_unknown(tokenizer, told)


def _default_prompt(tokenizer: Tokenizer) -> torch.Tensor:
    try:
        return tokenizer.encode(DEFAULT)
    except ValueError as error:
        raise ValueError(f'prompt must be given where the run can\'t read "{DEFAULT}": {error}') from error


def written(tokenizer: Tokenizer, tokens: Iterable[int], *, apart: bool) -> Iterator[str]:
    """Yield the text of each token; words that were cut are joined, unless they are to stand ``apart``."""
    pieces = tokenizer.decode(tokens)
    return joined(pieces) if is_cut(tokenizer) and not apart else pieces


def tell(pieces: Iterable[str]) -> str:
    """Print a text as it comes, and return it."""
    told = []
    for piece in pieces:
        print(piece, end="", flush=True)
        told.append(piece)
    print()
    return "".join(told)


def explain_unknown(tokenizer: Tokenizer, text: str) -> None:
    """Say, beside a text, what the unknown word in it stands for."""
    vocabulary = tokenizer.vocabulary
    if vocabulary is not None and vocabulary.unknown is not None and vocabulary.unknown in text:
        print(
            f"{vocabulary.unknown} stands for each of the {tokenizer.unit} that the vocabulary of "
            f"{len(vocabulary):,} lacks",
            file=sys.stderr,
        )
