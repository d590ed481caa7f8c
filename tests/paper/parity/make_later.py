"""Numbers of other libraries for rotary, ALiBi's and T5's positions: ``later.safetensors`` beside this file.

Rebuilt by ``make parity`` in the peers' environment (``constraints-peers.txt``). Distances are 0 … 299.
``buckets`` are T5's of 32 buckets up to 128 and ``coarse_buckets`` of 8 up to 20; ``alibi_N`` is
-slope · 7 for N heads by Bloom's keys, ``alibi_x_N`` by x-transformers' bias; ``rotary_scores`` are Llama's
q · k for ``q`` and ``k`` [batch head pos dim] at positions 0 … 8, and ``rotary_scores_x`` those of
x-transformers, whose pairs are neighbours: its q and k are ours with m and m + 4 side by side.
"""

from pathlib import Path

import torch
from einops import rearrange
from safetensors.torch import save_file
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention
from x_transformers.x_transformers import AlibiPositionalBias, RotaryEmbedding
from x_transformers.x_transformers import apply_rotary_pos_emb as x_apply

HEADS = (1, 2, 3, 4, 6, 8, 12)

torch.manual_seed(0)
away = torch.arange(300)
numbers = {
    "buckets": T5Attention._relative_position_bucket(-away, False, 32, 128),
    "coarse_buckets": T5Attention._relative_position_bucket(-away, False, 8, 20),
}
for heads in HEADS:
    numbers[f"alibi_{heads}"] = -7 * build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    numbers[f"alibi_x_{heads}"] = AlibiPositionalBias(heads, heads)(8, 8)[:, 7, 0]
q, k = (torch.randn(2, 3, 9, 8) for _ in range(2))
cos, sin = LlamaRotaryEmbedding(8)(q, seq_len=9)
turned_q, turned_k = apply_rotary_pos_emb(q, k, cos, sin, torch.arange(9).unsqueeze(0))
numbers |= {"q": q, "k": k, "rotary_scores": turned_q @ turned_k.mT}
freqs, scale = RotaryEmbedding(8).forward_from_seq_len(9)
x_q, x_k = (rearrange(one, "... (two half) -> ... (half two)", two=2) for one in (q, k))
numbers["rotary_scores_x"] = x_apply(x_q, freqs, scale) @ x_apply(x_k, freqs, scale).mT
save_file(
    {name: one.contiguous() for name, one in numbers.items()}, Path(__file__).with_name("later.safetensors")
)
