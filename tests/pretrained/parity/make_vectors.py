"""Parity vectors: what another implementation computes from the same weights.

Small random Transformer-XLs of ``transformers`` 4.37.2 (TransfoXL) read four segments of a
random stream, each with the memory of those before, starting from *empty* memory. Weights,
losses, memories and gradients go to ``vectors.safetensors``, which the tests read without
this peer. Rebuilt by ``make parity``, which runs this file in the peers' environment
(``constraints-peers.txt``); on the same machine the bytes come out the same.

    CASE/state/NAME        weights under the original PyTorch names, tied ones under each of their names
    CASE/gradient/NAME     of the sum over segments of the mean loss; tied ones under the first name
    CASE/tokens, /targets  [segments batch seg], ids
    CASE/losses            [segments batch seg], nats, in token order
    CASE/memory/S          [layer batch mem model], each layer's input, after segment S = 0 … 3

The file's one metadata key, ``parity``, is JSON: the configuration of each case in the
original's keys, and the versions that computed it. ``cluster_order`` is not the original's:
"hf" says that row i of cluster_weight and cluster_bias belongs to cluster i + 1, where the
original counts the rows from the end.
"""

import json
import warnings
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import pad
from transformers import TransfoXLConfig, TransfoXLLMHeadModel

SEGMENTS, BATCH, SEG_LEN = 4, 2, 6
ORIGINAL = {
    "n_token": 37,
    "n_layer": 2,
    "n_head": 2,
    "d_model": 16,
    "d_head": 6,
    "d_inner": 24,
    "d_embed": 16,
    "cutoffs": [],
    "div_val": 1,
    "tie_weight": True,
    "tie_projs": [False],
    "pre_lnorm": False,
    "untie_r": True,
    "clamp_len": -1,
    "same_length": False,
    "tgt_len": SEG_LEN,
    "ext_len": 0,
    "mem_len": 7,
    "dropout": 0.0,
    "dropatt": 0.0,
    "attn_type": 0,
    "sample_softmax": -1,
}
CLUSTERS = {"cutoffs": [11, 23], "tie_projs": [False, True, True]}
CASES = {
    "plain": {},
    "tied_r": {"untie_r": False},
    "embedding_apart": {"tie_weight": False},
    "adaptive": {**CLUSTERS},
    "adaptive_narrow": {**CLUSTERS, "d_embed": 10},
    "adaptive_div2": {**CLUSTERS, "div_val": 2},
    "adaptive_div2_narrow": {**CLUSTERS, "div_val": 2, "d_embed": 12},
    "clamp": {"clamp_len": 4},
    "same_length": {"same_length": True},
    "same_length_short_memory": {"same_length": True, "mem_len": 4},
    "pre_norm": {"pre_lnorm": True},
}


def build(config: dict, seed: int) -> TransfoXLLMHeadModel:
    """The model of a configuration, with no parameter zero or like another."""
    same = {
        name: value for name, value in config.items() if name not in ("n_token", "tie_weight", "tie_projs")
    }
    theirs = TransfoXLConfig(
        vocab_size=config["n_token"],
        tie_word_embeddings=config["tie_weight"],
        proj_share_all_but_first=any(config["tie_projs"]) or not config["cutoffs"],
        **same,
    )
    assert theirs.tie_projs == config["tie_projs"]
    model = TransfoXLLMHeadModel(theirs).eval()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.4 if parameter.dim() == 1 else parameter.shape[-1] ** -0.5
            mean = 1.0 if name.endswith("layer_norm.weight") else 0.0
            parameter.copy_(mean + scale * torch.randn(parameter.shape, generator=random))
    return model


def read(
    model: TransfoXLLMHeadModel, tokens: Tensor, targets: Tensor, *, remember: bool = True
) -> tuple[Tensor, list[Tensor]]:
    """Losses [segments batch seg] and, after each segment, memory [layer batch mem model].

    TransfoXL shifts labels inside and so never scores a segment's last token. Its scores
    without labels are log-probabilities of the whole vocabulary, and every target is
    gathered from them. Memory is passed even when empty: without it TransfoXL would begin
    with zero states that the queries see.
    """
    c = model.config
    empty = [torch.zeros(0, BATCH, c.d_model)] * c.n_layer
    losses, memories, mems = [], [], empty
    for segment, following in zip(tokens, targets, strict=True):
        read = model(segment, mems=mems, output_hidden_states=True, return_dict=True)
        losses.append(-read.prediction_scores.gather(-1, following.unsqueeze(-1)).squeeze(-1))
        assert torch.allclose(losses[-1], by_criterion(model, read.hidden_states[-1], following), atol=1e-5)
        memories.append(torch.stack(read.mems).transpose(1, 2))  # theirs are time first
        mems = read.mems if remember else empty
    return torch.stack(losses), memories


def by_criterion(model: TransfoXLLMHeadModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """The same losses by the way of training, its shift undone by one more position."""
    unshifted = model.crit(pad(hidden, (0, 0, 0, 1)), pad(targets, (1, 0)), keep_order=True)
    return unshifted.view_as(targets)


def original_name(name: str) -> str:
    return name.removeprefix("transformer.")


def vectors_of(config: dict, seed: int) -> dict[str, Tensor]:
    model = build(config, seed)
    stream = torch.randint(
        config["n_token"], (BATCH, SEGMENTS * SEG_LEN + 1), generator=torch.Generator().manual_seed(seed)
    )
    tokens, targets = (
        part.reshape(BATCH, SEGMENTS, SEG_LEN).transpose(0, 1) for part in (stream[:, :-1], stream[:, 1:])
    )
    losses, memories = read(model, tokens, targets)
    losses.mean(dim=(1, 2)).sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert all(gradient.count_nonzero() for gradient in gradients.values())
    check_settings_matter(model, tokens, targets, losses)
    vectors = {"tokens": tokens, "targets": targets, "losses": losses.detach()}
    vectors |= {f"memory/{segment}": memory for segment, memory in enumerate(memories)}
    vectors |= {f"gradient/{original_name(name)}": gradient for name, gradient in gradients.items()}
    vectors |= {
        f"state/{original_name(name)}": tensor
        for name, tensor in model.state_dict().items()
        if not name.endswith("inv_freq")
    }
    return vectors


@torch.no_grad()
def check_settings_matter(
    model: TransfoXLLMHeadModel, tokens: Tensor, targets: Tensor, losses: Tensor
) -> None:
    """Memory, same_length and clamp_len change losses, and only those they can."""

    def changed(**options) -> Tensor:
        difference = read(model, tokens, targets, **options)[0] - losses
        return difference.abs().amax(dim=(1, 2)) > 1e-3

    later = torch.arange(SEGMENTS) > 0
    assert torch.equal(changed(remember=False), later)
    inner = model.transformer
    if inner.same_length:
        inner.same_length = False
        seen = torch.arange(1, SEGMENTS + 1) * SEG_LEN  # by the segment's last query, were there no limit
        assert torch.equal(changed(), seen > inner.mem_len)
        inner.same_length = True
    if inner.clamp_len > 0:
        clamp_len, inner.clamp_len = inner.clamp_len, -1
        assert changed().all()
        inner.clamp_len = clamp_len


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    warnings.filterwarnings("ignore", message="The output of TransfoXL will be updated in v5")
    configs = {case: {**ORIGINAL, **changes} for case, changes in CASES.items()}
    vectors = {
        f"{case}/{name}": tensor.clone(memory_format=torch.contiguous_format)
        for seed, (case, config) in enumerate(configs.items())
        for name, tensor in vectors_of(config, seed).items()
    }
    about = {
        "cases": {case: {**config, "cluster_order": "hf"} for case, config in configs.items()},
        "versions": {name: version(name).split("+")[0] for name in ("torch", "transformers")},
    }
    path = Path(__file__).with_name("vectors.safetensors")
    save_file(vectors, path, metadata={"parity": json.dumps(about, sort_keys=True)})
    print(f"{len(configs)} cases, {len(vectors)} tensors, {path.stat().st_size / 1000:.0f} kB: {path.name}")


if __name__ == "__main__":
    main()
