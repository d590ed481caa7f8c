"""Adaptive embedding and softmax: rare words share what frequent words have to themselves.

The vocabulary, most frequent word first, is cut into clusters [0, c_1), [c_1, c_2), … [c_K, vocab):
the shortlist and K tails. A tail may be narrower, by ``div_val`` for each cluster (Baevski and Auli
2019), and its words are scored only where the target is one of them (Grave et al. 2017):

    log p(word) = log p(cluster) + log p(word | cluster)

With no cutoffs both are the ordinary embedding and softmax.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
from einops import pack, parse_shape, rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Partition:
    """How the vocabulary is cut. Cluster i has ids ``starts[i]`` on, ``sizes[i]`` of them."""

    vocab_size: int
    d_embed: int
    d_model: int
    cutoffs: tuple[int, ...] = ()
    div_val: int = 1

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "div_val"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        edges = (0, *self.cutoffs, self.vocab_size)
        if any(low >= high for low, high in pairwise(edges)):
            rule = f"strictly increase inside 1 … vocab_size - 1 = {self.vocab_size - 1}"
            raise ValueError(f"cutoffs must {rule}, got {self.cutoffs}")
        least = self.div_val ** len(self.cutoffs)
        if self.d_embed < least:
            raise ValueError(
                f"d_embed must be {least} or more, for all clusters to have a width, got {self.d_embed}"
            )

    @property
    def starts(self) -> list[int]:
        return [0, *self.cutoffs]

    @property
    def sizes(self) -> list[int]:
        return [high - low for low, high in pairwise((0, *self.cutoffs, self.vocab_size))]

    @property
    def widths(self) -> list[int]:
        return [self.d_embed // self.div_val**i for i in range(len(self.sizes))]

    @property
    def tables(self) -> list[tuple[int, int]]:
        """Rows and width of each table: clusters of one width live in one table."""
        if self.div_val == 1:
            return [(self.vocab_size, self.d_embed)]
        return list(zip(self.sizes, self.widths, strict=True))

    @property
    def projected(self) -> bool:
        """Whether the tables' widths differ from the model's; by rule they do where ``div_val`` > 1."""
        return self.div_val > 1 or self.d_embed != self.d_model

    def cluster(self, ids: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The cluster of each id: how many cutoffs it has reached."""
        return sum(((ids >= cutoff).long() for cutoff in self.cutoffs), torch.zeros_like(ids).long())


def _projections(widths: list[int], d_model: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(width, d_model, bias=False) for width in widths)


class AdaptiveEmbedding(nn.Module):
    """A vector of width d_model for each token, not yet scaled by √d_model.

    ``tables`` are [size_i, width_i], ``projections`` [d_model, width_i]: with div_val = 1 one
    table, and one projection where d_embed is not d_model; else both for each cluster.
    """

    def __init__(
        self,
        vocab_size: int,
        d_embed: int,
        d_model: int,
        *,
        cutoffs: tuple[int, ...] = (),
        div_val: int = 1,
    ) -> None:
        super().__init__()
        self.partition = part = Partition(vocab_size, d_embed, d_model, cutoffs, div_val)
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size, width in part.tables)
        widths = [width for _, width in part.tables]
        self.projections = _projections(widths if part.projected else [], d_model)

    def forward(self, tokens: Int[Tensor, "batch seg"]) -> Float[Tensor, "batch seg model"]:
        ids = rearrange(tokens, "batch seg -> (batch seg)")
        if len(self.tables) == 1:
            found = self._look_up(0, ids)
        else:
            cluster = self.partition.cluster(ids)
            groups = [
                self._look_up(i, ids[cluster == i] - low) for i, low in enumerate(self.partition.starts)
            ]
            by_cluster, _ = pack(groups, "* model")
            found = by_cluster[cluster.argsort(stable=True).argsort()]  # back in token order
        return rearrange(found, "(batch seg) model -> batch seg model", **parse_shape(tokens, "batch seg"))

    def _look_up(self, table: int, rows: Int[Tensor, " token"]) -> Float[Tensor, "token model"]:
        found = self.tables[table](rows)
        return self.projections[table](found) if self.projections else found


class AdaptiveSoftmax(nn.Module):
    """Log-probabilities in nats: a softmax over shortlist and tail clusters, and one in each tail.

    ``tables`` are [size_i, width_i] with biases and ``projections`` [d_model, width_i], so that both
    may be the embedding's; projections are used transposed, model to width. With div_val = 1
    there is one table, but where d_embed is not d_model a projection for each cluster.

    Row i-1 of ``clusters`` is the logit of tail cluster i, as in the Hugging Face and TensorFlow
    weights; the original PyTorch code reads the rows in the opposite order, so that its weights
    are turned round when they are loaded.
    """

    def __init__(
        self,
        vocab_size: int,
        d_embed: int,
        d_model: int,
        *,
        cutoffs: tuple[int, ...] = (),
        div_val: int = 1,
    ) -> None:
        super().__init__()
        self.partition = part = Partition(vocab_size, d_embed, d_model, cutoffs, div_val)
        self.tables = nn.ModuleList(nn.Linear(width, size) for size, width in part.tables)
        self.clusters = nn.Linear(part.widths[0], len(cutoffs)) if cutoffs else None
        self.projections = _projections(part.widths if part.projected else [], d_model)

    def tie(
        self, embedding: AdaptiveEmbedding, *, tables: bool = True, projections: tuple[bool, ...] = ()
    ) -> None:
        """Use the embedding's own parameters from now on; biases and ``clusters`` stay.

        ``projections[i]`` is for cluster i; with div_val = 1 all share the embedding's only one,
        and where d_embed is d_model too there is none to share.
        """
        if embedding.partition != self.partition:
            raise ValueError(f"embedding must be cut as {self.partition}, got {embedding.partition}")
        number = len(self.partition.sizes)
        if projections and len(projections) != number:
            raise ValueError(
                f"projections must hold one flag for each of the {number} clusters, got {projections}"
            )
        if tables:
            for mine, theirs in zip(self.tables, embedding.tables, strict=True):
                mine.weight = theirs.weight
        for i, (mine, tied) in enumerate(zip(self.projections, projections, strict=False)):
            if tied:
                mine.weight = embedding.projections[i if self.partition.div_val > 1 else 0].weight

    def log_probs(self, hidden: Float[Tensor, "batch seg model"]) -> Float[Tensor, "batch seg vocab"]:
        """log p of every word, normalised, in the order of the vocabulary."""
        head, *tails = [self._log_softmax(i, hidden, rows) for i, rows in enumerate(self._rows())]
        shortlist, *clusters = head.split([self.partition.sizes[0]] + [1] * len(tails), dim=-1)
        words = [cluster + tail for cluster, tail in zip(clusters, tails, strict=True)]
        return pack([shortlist, *words], "batch seg *")[0]

    def losses(
        self, hidden: Float[Tensor, "batch seg model"], targets: Int[Tensor, "batch seg"]
    ) -> Float[Tensor, "batch seg"]:
        """-log p(target) of each token, in token order. A tail is scored for its own targets alone."""
        if targets.shape != hidden.shape[:2]:
            got = f"{tuple(targets.shape)} for {tuple(hidden.shape[:2])}"
            raise ValueError(f"targets must hold one id for each position of hidden, got {got}")
        states = rearrange(hidden, "batch seg model -> (batch seg) model")
        ids = rearrange(targets, "batch seg -> (batch seg)")
        cluster, shortlist = self.partition.cluster(ids), self.partition.sizes[0]
        head, *tails = self._rows()
        entry = torch.where(cluster == 0, ids, shortlist - 1 + cluster)
        losses = -_pick(self._log_softmax(0, states, head), entry)
        for i, rows in enumerate(tails, start=1):
            # A tail without targets is scored too, for no token: its gradient is zero and not missing.
            (at,) = torch.where(cluster == i)
            scores = self._log_softmax(i, states[at], rows)
            losses = losses.index_add(0, at, -_pick(scores, ids[at] - self.partition.starts[i]))
        return rearrange(losses, "(batch seg) -> batch seg", **parse_shape(targets, "batch seg"))

    def _rows(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of each cluster's words; behind those of the shortlist, the tail clusters'."""
        tables = cast(list[nn.Linear], self.tables)  # a ModuleList has no type for what it holds
        weights, biases = [table.weight for table in tables], [table.bias for table in tables]
        if len(tables) == 1:  # split, not sliced: its gradient is written once, not once a slice
            weights = list(weights[0].split(self.partition.sizes))
            biases = list(biases[0].split(self.partition.sizes))
        if self.clusters is not None:
            weights[0], _ = pack([weights[0], self.clusters.weight], "* embed")
            biases[0], _ = pack([biases[0], self.clusters.bias], "*")
        return list(zip(weights, biases, strict=True))

    def _log_softmax(
        self, i: int, hidden: Float[Tensor, "*token model"], rows: tuple[Tensor, Tensor]
    ) -> Float[Tensor, "*token entry"]:
        """Log-softmax over the rows of cluster i, which reads ``hidden`` through its projection."""
        if self.projections:
            weight = cast(nn.Linear, self.projections[i]).weight
            hidden = self.product(hidden, rearrange(weight, "model embed -> embed model"))
        return self.product(hidden, *rows).log_softmax(dim=-1)

    def product(
        self,
        x: Float[Tensor, "*token input"],
        weight: Float[Tensor, "output input"],
        bias: Float[Tensor, " output"] | None = None,
    ) -> Float[Tensor, "*token output"]:
        """Return x Wᵀ + b."""
        return functional.linear(x, weight, bias)


def _pick(scores: Float[Tensor, "token entry"], entries: Int[Tensor, " token"]) -> Float[Tensor, " token"]:
    picked = scores.gather(1, rearrange(entries, "token -> token 1"))
    return rearrange(picked, "token 1 -> token")
