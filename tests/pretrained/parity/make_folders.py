"""Sixty random models of Hugging Face's port, as the port saves them, and their losses.

Each has settings drawn over all keys that the port or the original code has, tiny random weights,
and the folder that ``save_pretrained`` writes: config.json and either model.safetensors or
pytorch_model.bin. From some config.json every key with the port's default is taken away. The port
loads the folder again and scores four segments from empty memory. All folders lie in ``folders.zip``,
each with a ``losses.json`` of tokens, targets and losses in nats, [segment batch seg].

Rebuilt by ``make parity`` in the peers' environment (``constraints-peers.txt``); on the same machine
the bytes come out the same. With a folder as argument, it is read instead: ``make parity`` has
``save_released`` write each model there again, and here the port must find the same losses.
"""

import json
import sys
import warnings
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import torch
from make_vectors import read
from torch import Tensor
from transformers import TransfoXLConfig, TransfoXLLMHeadModel

MODELS, SEGMENTS, BATCH, SEG_LEN = 60, 4, 2, 4
ARCHIVE = Path(__file__).with_name("folders.zip")
FILES = ("model.safetensors", "pytorch_model.bin")


def settings_of(random: Random) -> dict:
    """Draw the settings of a model."""
    vocab_size = random.randint(9, 14)
    cutoffs = sorted(random.sample(range(2, vocab_size - 1), random.choice([0, 0, 1, 2, 3])))
    div_val = random.choice([1, 1, 2]) if cutoffs else 1
    d_model = random.choice([4, 6, 8])
    least = div_val ** len(cutoffs)
    mem_len = random.choice([0, 1, 3, 4, 5, 9])
    ties = random.choice(["shared", "apart", "each"])
    settings = {
        "vocab_size": vocab_size,
        "cutoffs": cutoffs,
        "d_model": d_model,
        "d_embed": random.choice(
            [d_model, random.randint(least, least + 4), d_model if d_model >= least else 8]
        ),
        "n_head": random.randint(1, 3),
        "d_head": random.randint(1, 4),
        "d_inner": random.randint(1, 6),
        "div_val": div_val,
        "pre_lnorm": random.random() < 0.3,
        "n_layer": random.randint(1, 2),
        "mem_len": mem_len,
        "clamp_len": random.choice([-1, 0, 1, 3, 1000]),
        "same_length": mem_len > 0 and random.random() < 0.5,
        "proj_share_all_but_first": ties != "apart",
        "attn_type": 0,
        "sample_softmax": random.choice([-1, 0]),
        "adaptive": random.random() < 0.5,
        "dropout": random.choice([0.0, 0.1, 0.5]),
        "dropatt": random.choice([0.0, 0.2]),
        "untie_r": random.random() < 0.5,
        "init": random.choice(["normal", "uniform"]),
        "layer_norm_epsilon": random.choice([1e-5, 1e-5, 1e-12, 1e-2]),
        "tie_word_embeddings": random.random() < 0.6,
        "eos_token_id": 0,
    }
    if settings["d_embed"] < least:
        settings["d_embed"] = least
    if ties == "each":
        settings["tie_projs"] = [random.random() < 0.5 for _ in range(len(cutoffs) + 1)]
    return settings


def few_bits(tensor: Tensor) -> Tensor:
    """Round to bfloat16, so that the archive is small."""
    return tensor.bfloat16().float()


def save(folder: Path, settings: dict, random: Random) -> TransfoXLLMHeadModel:
    """Write the folder of a random model, and return the model."""
    model = TransfoXLLMHeadModel(TransfoXLConfig(**settings)).eval()
    drawn = torch.Generator().manual_seed(random.randrange(2**30))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            mean = 1.0 if name.endswith("layer_norm.weight") else 0.0
            parameter.copy_(few_bits(mean + 0.6 * torch.randn(parameter.shape, generator=drawn)))
    model.save_pretrained(folder, safe_serialization=random.random() < 0.5)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if random.random() < 0.3:
        path, defaults = folder / "config.json", TransfoXLConfig().to_dict()
        config = json.loads(path.read_text("utf-8"))
        needed = ("vocab_size", "cutoffs", "d_model", "n_head", "d_head", "d_inner", "n_layer", "mem_len")
        config = {name: v for name, v in config.items() if name in needed or v != defaults.get(name)}
        path.write_text(json.dumps(config), "utf-8")
    return model


@torch.no_grad()
def losses_of(folder: Path, tokens: Tensor, targets: Tensor) -> Tensor:
    """Return the losses of the model that the port loads from the folder."""
    return read(TransfoXLLMHeadModel.from_pretrained(folder).eval(), tokens, targets)[0]


def make() -> None:
    random = Random(20190109)
    with TemporaryDirectory() as temporary, ZipFile(ARCHIVE, "w", ZIP_DEFLATED) as archive:
        for case in range(MODELS):
            folder = Path(temporary) / f"{case:02}"
            settings = settings_of(random)
            model = save(folder, settings, random)
            stream = [
                [random.randrange(settings["vocab_size"]) for _ in range(SEGMENTS * SEG_LEN + 1)]
                for _ in range(BATCH)
            ]
            tokens, targets = (
                torch.tensor([row[first : first + SEGMENTS * SEG_LEN] for row in stream])
                .reshape(BATCH, SEGMENTS, SEG_LEN)
                .transpose(0, 1)
                for first in (0, 1)
            )
            with torch.no_grad():
                losses = read(model, tokens, targets)[0]
            assert torch.allclose(losses_of(folder, tokens, targets), losses, atol=1e-5), settings
            scored = {
                "tokens": tokens.tolist(),
                "targets": targets.tolist(),
                "losses": [[[round(nats, 6) for nats in row] for row in rows] for rows in losses.tolist()],
            }
            (folder / "losses.json").write_text(json.dumps(scored), "utf-8")
            for path in sorted(folder.iterdir()):
                archive.writestr(ZipInfo(f"{folder.name}/{path.name}"), path.read_bytes(), ZIP_DEFLATED, 9)
    print(f"{MODELS} models, {ARCHIVE.stat().st_size / 1000:.0f} kB: {ARCHIVE.name}")


def check(folders: Path) -> None:
    """Exit with an error unless the port finds the stored losses in folders that were written anew."""
    paths = sorted(folders.iterdir())
    assert len(paths) == MODELS, paths
    for folder in paths:
        scored = json.loads((folder / "losses.json").read_text("utf-8"))
        losses = losses_of(folder, torch.tensor(scored["tokens"]), torch.tensor(scored["targets"]))
        expected = torch.tensor(scored["losses"])
        if not torch.allclose(losses, expected, rtol=2e-6, atol=2e-5):
            error = (losses - expected).abs().max().item()
            sys.exit(f"{folder.name}: the port's losses of what save_released wrote are {error:.2g} nats off")
    print(f"{len(paths)} models that save_released wrote have the same losses in the port")


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="The output of TransfoXL will be updated in v5")
    check(Path(sys.argv[1])) if len(sys.argv) > 1 else make()
