"""The attentions of a fast model: the paper's classes with another ``forward``.

Each class keeps the parameters and the other methods of the class it stands for. ``dot_product_attention``
and ``relative_attention`` work on projected heads; the key-value cache calls them too.
Shaw's attention has no faster form.
"""

from typing import Unpack

from einops import rearrange
from torch.nn.functional import scaled_dot_product_attention

from minitxl.attention import (
    AttentionOptions,
    Heads,
    KeyMask,
    Keys,
    LayerMemory,
    MultiHeadAttention,
    Segment,
    XLAttention,
    attention_mask,
    merge_heads,
    split_heads,
)
from minitxl.fast import cpu_attention, gpu_attention
from minitxl.fast.dropout import FastDropout
from minitxl.fast.eager import is_eager
from minitxl.fast.inputs import Distances, Inputs, project, project_distances, with_biases


class FastMultiHeadAttention(MultiHeadAttention):
    """``MultiHeadAttention`` by PyTorch's own attention."""

    def forward(
        self, x: Segment, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Segment:
        """Return the attention's output for each query of the segment."""
        if type(self.drop) is not FastDropout or not is_eager(
            x
        ):  # another class of dropout is not described by its rate alone
            return super().forward(x, memory, **options)
        memory = x[:, :0] if memory is None else memory
        q = split_heads(self.W_q(x), self.n_head)
        v = project(self.W_v, memory, x, self.n_head)
        k = project(self.W_k, memory, x, self.n_head)
        rate = self.drop.p if self.training else 0.0
        window, key_mask = options.get("window"), options.get("key_mask")
        return self.W_o(
            merge_heads(dot_product_attention(q, k, v, rate=rate, window=window, key_mask=key_mask))
        )


class FastXLAttention(XLAttention):
    """``XLAttention`` in blocks of queries on a CPU, by the fastest backend on a GPU."""

    def forward(
        self, x: Segment, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Segment:
        """Return the attention's output for each query of the segment."""
        if type(self.drop) is not FastDropout or not is_eager(
            x
        ):  # another class of dropout is not described by its rate alone
            return super().forward(x, memory, **options)
        memory = x[:, :0] if memory is None else memory
        q = split_heads(self.W_q(x), self.n_head)
        v = project(self.W_v, memory, x, self.n_head)
        k = project(self.W_kE, memory, x, self.n_head)
        r = project_distances(self, k.shape[2], x, options.get("clamp_len"))
        rate = self.drop.p if self.training else 0.0
        window, key_mask = options.get("window"), options.get("key_mask")
        return self.W_o(
            merge_heads(relative_attention(self, q, k, v, r, rate=rate, window=window, key_mask=key_mask))
        )


def dot_product_attention(
    q: Heads,
    k: Keys,
    v: Keys,
    *,
    rate: float = 0.0,
    window: int | None = None,
    key_mask: KeyMask | None = None,
) -> Heads:
    """Return softmax(q_i · k_j / √d_head) v_j; with ``is_causal`` and no mask PyTorch skips future keys."""
    if q.shape[2] == k.shape[2] and window is None and key_mask is None:
        return scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=rate)
    mask = attention_mask(q.shape[2], k.shape[2], window=window, key_mask=key_mask, device=q.device)
    mask = rearrange(mask, "batch query key -> batch 1 query key")
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate)


def relative_attention(
    attention: XLAttention,
    q: Heads,
    k: Keys,
    v: Keys,
    r: Distances,
    *,
    rate: float = 0.0,
    window: int | None = None,
    key_mask: KeyMask | None = None,
) -> Heads:
    """Return the heads of ``XLAttention`` from projected queries, keys, values, distances."""
    on_cpu = q.device.type == "cpu"
    q_u, q_v = with_biases(attention, q.contiguous() if on_cpu else q)
    inputs = Inputs(q_u, q_v, k, v, r, rate, window, key_mask)
    return cpu_attention.in_blocks(inputs) if on_cpu else gpu_attention.relative(inputs)
