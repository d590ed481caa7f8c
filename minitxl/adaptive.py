"""Adaptive embedding and softmax, which make a vocabulary of 267,735 words affordable.

Most words are rare. So the vocabulary, most frequent word first, is cut at K ids c_1 < … < c_K, the cutoffs.
That makes K + 1 clusters. Cluster 0, called the shortlist, holds the ids below c_1. Clusters 1 … K, called
the tails, hold the others. There is a softmax for each cluster. The first has a class for each word of the
shortlist and one for each tail. The vectors of tail i may be narrower, by a factor of div_val^i (Baevski and
Auli 2019). For a loss, the softmax of a tail is computed only for the tokens whose target is in the tail
(Grave et al. 2017). For a word of a tail:

    log p(word) = log p(cluster) + log p(word | cluster)

Without cutoffs there is one cluster, the whole vocabulary, with one table and one softmax. If also
div_val is 1 and d_embed is d_model, nothing is projected, and these are the ordinary embedding and softmax.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
from einops import pack, parse_shape, rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from minitxl.arguments import check_hidden
from minitxl.fields import SIZES, check, check_types


@dataclass(frozen=True)
class Partition:
    """The clusters of a vocabulary. Cluster i has ``sizes[i]`` ids, from ``starts[i]`` on.

    The vectors of its ids have ``widths[i]`` numbers before they are projected.
    """

    vocab_size: int
    d_embed: int
    d_model: int
    cutoffs: tuple[int, ...] = ()
    div_val: int = 1

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("vocab_size", "d_embed", "d_model", "div_val"):
            check(name, getattr(self, name), SIZES[name])
        edges = (0, *self.cutoffs, self.vocab_size)
        if any(low >= high for low, high in pairwise(edges)):
            rule = f"strictly increase inside 1 … vocab_size - 1 = {self.vocab_size - 1}"
            raise ValueError(f"cutoffs must {rule}, got {self.cutoffs}")
        least_d_embed = self.div_val ** len(self.cutoffs)
        if self.d_embed < least_d_embed:
            rule = f"d_embed (or d_model in its place) must be {least_d_embed} or more"
            reason = f"for the last cluster to be 1 wide or more with div_val = {self.div_val}"
            raise ValueError(f"{rule}, {reason}, got {self.d_embed}")

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
    def table_shapes(self) -> list[tuple[int, int]]:
        """Rows and width of each embedding table: clusters of equal width share one table."""
        if self.div_val == 1:
            return [(self.vocab_size, self.d_embed)]
        return list(zip(self.sizes, self.widths, strict=True))

    @property
    def has_projections(self) -> bool:
        """True if vectors are projected to width d_model: with div_val > 1 always, as in the original."""
        return self.div_val > 1 or self.d_embed != self.d_model

    def cluster_of(self, ids: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Return the cluster of each id, which is the number of cutoffs at or below it."""
        return sum(((ids >= cutoff).long() for cutoff in self.cutoffs), torch.zeros_like(ids).long())


def _projections(widths: list[int], d_model: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(width, d_model, bias=False) for width in widths)


class AdaptiveEmbedding(nn.Module):
    """The embedding: a vector of width d_model for each token, not yet scaled by √d_model.

    With div_val > 1 each cluster i has a table [size_i, width_i] and a projection [d_model, width_i]. With
    div_val = 1 all tokens have one table, and one projection if d_embed is not d_model.
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
        self.partition = partition = Partition(vocab_size, d_embed, d_model, cutoffs, div_val)
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size, width in partition.table_shapes)
        widths = [width for _, width in partition.table_shapes]
        self.projections = _projections(widths if partition.has_projections else [], d_model)

    def forward(self, tokens: Int[Tensor, "batch seg"]) -> Float[Tensor, "batch seg model"]:
        ids = rearrange(tokens, "batch seg -> (batch seg)")
        if len(self.tables) == 1:
            embedded = self._look_up(0, ids)
        else:
            clusters = self.partition.cluster_of(ids)
            by_cluster = [
                self._look_up(cluster, ids[clusters == cluster] - first_id)
                for cluster, first_id in enumerate(self.partition.starts)
            ]
            in_cluster_order, _ = pack(by_cluster, "* model")
            token_of_row = clusters.argsort(stable=True)
            row_of_token = token_of_row.argsort()  # the inverse permutation
            embedded = in_cluster_order[row_of_token]
        return rearrange(embedded, "(batch seg) model -> batch seg model", **parse_shape(tokens, "batch seg"))

    def _look_up(self, index: int, ids: Int[Tensor, " token"]) -> Float[Tensor, "token model"]:
        """Return the vectors of one table, projected; ``ids`` count from the table's first id."""
        embedded = self.tables[index](ids)
        return self.projections[index](embedded) if self.projections else embedded


class AdaptiveSoftmax(nn.Module):
    """The output layer: a softmax over the shortlist and the tail clusters, and one in each tail.

    With div_val > 1 each cluster i has a table [size_i, width_i] with biases, and a projection [d_model,
    width_i]. These are the shapes of the embedding's tables and projections, so the two modules may share
    them. Here a projection is used transposed, from d_model to the cluster's width. With div_val = 1 all
    clusters share one table. If then d_embed is not d_model, the embedding has a single projection, but the
    softmax has one for each cluster, as in the original code.

    ``tail_classes`` gives the logits of the tails' classes in the first softmax. Row i-1 is that of tail i,
    since the shortlist, cluster 0, has no such class. The models of Hugging Face and TensorFlow have the
    same order. The original PyTorch code reads these rows in the opposite order: so ``pretrained``
    reverses them when it loads a model of that code.
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
        self.partition = partition = Partition(vocab_size, d_embed, d_model, cutoffs, div_val)
        self.tables = nn.ModuleList(nn.Linear(width, size) for size, width in partition.table_shapes)
        self.tail_classes = nn.Linear(partition.widths[0], len(cutoffs)) if cutoffs else None
        self.projections = _projections(partition.widths if partition.has_projections else [], d_model)

    def tie(
        self, embedding: AdaptiveEmbedding, *, tie_tables: bool = True, tie_projections: tuple[bool, ...] = ()
    ) -> None:
        """Share the embedding's parameters from now on; biases and ``tail_classes`` stay apart.

        ``tie_projections[i]`` says whether cluster i shares its projection. With div_val = 1 the embedding
        has one projection if d_embed is not d_model, and every flagged cluster shares it. With div_val = 1
        and d_embed = d_model there are no projections, and the flags do nothing.
        """
        if embedding.partition != self.partition:
            raise ValueError(f"embedding must be cut as {self.partition}, got {embedding.partition}")
        if tie_projections and len(tie_projections) != len(self.partition.sizes):
            raise ValueError(
                f"tie_projections must hold one flag for each of the {len(self.partition.sizes)} clusters, "
                f"got {tie_projections}"
            )
        if tie_tables:
            for output_table, input_table in zip(self.tables, embedding.tables, strict=True):
                output_table.weight = input_table.weight
        for cluster, projection in enumerate(self.projections):
            if tie_projections and tie_projections[cluster]:
                projection.weight = embedding.projections[cluster if self.partition.div_val > 1 else 0].weight

    def log_probs(self, hidden: Float[Tensor, "batch seg model"]) -> Float[Tensor, "batch seg vocab"]:
        """Return log p of every word in nats, normalised, in the order of the vocabulary."""
        # The first softmax is over the shortlist and one class for each tail; the others are over a tail.
        first, *within_tails = [
            self._cluster_log_softmax(cluster, hidden, weight_and_bias)
            for cluster, weight_and_bias in enumerate(self._weights_and_biases())
        ]
        n_classes = [self.partition.sizes[0]] + [1] * len(within_tails)
        shortlist, *tails = first.split(n_classes, dim=-1)
        words = [tail + within_tail for tail, within_tail in zip(tails, within_tails, strict=True)]
        return pack([shortlist, *words], "batch seg *")[0]

    def losses(
        self, hidden: Float[Tensor, "batch seg model"], targets: Int[Tensor, "batch seg"]
    ) -> Float[Tensor, "batch seg"]:
        """Return -log p(target) in nats of each target.

        The softmax of a tail is computed for the tokens whose target is in the tail, and for no other.
        """
        check_hidden(hidden, targets, d_model=self.partition.d_model)
        vectors = rearrange(hidden, "batch seg model -> (batch seg) model")
        ids = rearrange(targets, "batch seg -> (batch seg)").long()
        clusters, n_shortlist = self.partition.cluster_of(ids), self.partition.sizes[0]
        first_softmax, *tail_softmaxes = self._weights_and_biases()
        # In the first softmax a shortlist word's class is its id; tail i's class is n_shortlist - 1 + i.
        first_class = torch.where(clusters == 0, ids, n_shortlist - 1 + clusters)
        losses = self._cluster_losses(0, vectors, first_softmax, first_class)
        for tail, tail_softmax in enumerate(tail_softmaxes, start=1):
            # Computed even if no target is in the tail: the tail's parameters get a gradient of 0, not None.
            (indices,) = torch.where(clusters == tail)
            ids_in_tail = ids[indices] - self.partition.starts[tail]
            tail_losses = self._cluster_losses(tail, vectors[indices], tail_softmax, ids_in_tail)
            losses = losses.index_add(0, indices, tail_losses)
        return rearrange(losses, "(batch seg) -> batch seg", **parse_shape(targets, "batch seg"))

    def _weights_and_biases(self) -> list[tuple[Tensor, Tensor]]:
        """Return weight and bias of each softmax; the weight of the first has one more row for each tail."""
        tables = cast(list[nn.Linear], self.tables)  # a ModuleList has no type for what it holds
        weights, biases = [table.weight for table in tables], [table.bias for table in tables]
        if len(tables) == 1:
            # Split, not sliced: the backward pass of each slice would fill a gradient as large as the whole
            # table, mostly with zeros. That of a split joins the gradients of the parts.
            weights = list(weights[0].split(self.partition.sizes))
            biases = list(biases[0].split(self.partition.sizes))
        if self.tail_classes is not None:
            weights[0], _ = pack([weights[0], self.tail_classes.weight], "* embed")
            biases[0], _ = pack([biases[0], self.tail_classes.bias], "*")
        return list(zip(weights, biases, strict=True))

    def _cluster_log_softmax(
        self, cluster: int, hidden: Float[Tensor, "*token model"], weight_and_bias: tuple[Tensor, Tensor]
    ) -> Float[Tensor, "*token n_class"]:
        """Return the log-softmax of a cluster, after its projection if it has one."""
        return self.linear(self._to_width(cluster, hidden), *weight_and_bias).log_softmax(dim=-1)

    def _cluster_losses(
        self,
        cluster: int,
        hidden: Float[Tensor, "token model"],
        weight_and_bias: tuple[Tensor, Tensor],
        classes: Int[Tensor, " token"],
    ) -> Float[Tensor, " token"]:
        """Return -log p(class) in a cluster's softmax; that of cluster 0 also has the tails' classes."""
        return self.class_losses(self._to_width(cluster, hidden), *weight_and_bias, classes)

    def _to_width(self, cluster: int, hidden: Float[Tensor, "*token model"]) -> Float[Tensor, "*token embed"]:
        """Return the hidden states in the cluster's width: projected, unless the layer has no projections."""
        if not self.projections:
            return hidden
        weight = cast(nn.Linear, self.projections[cluster]).weight
        return self.linear(hidden, rearrange(weight, "model embed -> embed model"))

    def linear(
        self,
        x: Float[Tensor, "*token input"],
        weight: Float[Tensor, "output input"],
        bias: Float[Tensor, " output"] | None = None,
    ) -> Float[Tensor, "*token output"]:
        """Return x Wᵀ + b. A fast model replaces this method."""
        return functional.linear(x, weight, bias)

    def class_losses(
        self,
        x: Float[Tensor, "token input"],
        weight: Float[Tensor, "output input"],
        bias: Float[Tensor, " output"],
        classes: Int[Tensor, " token"],
    ) -> Float[Tensor, " token"]:
        """Return -log softmax(x Wᵀ + b) for each token's class; class c has row c of W.

        A fast model replaces this method.
        """
        scores = self.linear(x, weight, bias).log_softmax(dim=-1)
        picked = scores.gather(1, rearrange(classes, "token -> token 1"))
        return -rearrange(picked, "token 1 -> token")
