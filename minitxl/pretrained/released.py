"""Released models in Hugging Face's format: settings, weights and vocabulary, none of them unpickled."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from minitxl.arguments import check_kind
from minitxl.data.tokenizer import Vocabulary
from minitxl.fields import Rules, checked, flag, naming, sequence, text, whole
from minitxl.files import atomic_write, plain_file, read_json
from minitxl.inference.config import EvaluateConfig
from minitxl.model import TransformerLM
from minitxl.pretrained import original, torch_files
from minitxl.pretrained.hub import CONFIG, SMALL, VOCABULARIES, WEIGHTS, WORDS, folder_of
from minitxl.pretrained.port_keys import OTHERS
from minitxl.training.checkpoints import tensor_digest
from minitxl.training.sizes import skeleton

CONFIG_BYTES = 2**20
"""Size of a config.json that is read, at most."""
LARGEST_MEMORY = 2**31 - 1
TOKENIZER = "tokenizer_config.json"
DIGEST = "sha256"
"""Name in the metadata of the weights under which ``save_released`` keeps the digest of the tensors."""
DEFAULTS: Mapping[str, Any] = {
    "d_embed": 1024,
    "div_val": 4,
    "pre_lnorm": False,
    "clamp_len": 1000,
    "same_length": True,
    "proj_share_all_but_first": True,
    "attn_type": 0,
    "sample_softmax": -1,
    "dropout": 0.1,
    "dropatt": 0.0,
    "untie_r": True,
    "layer_norm_epsilon": 1e-5,
}
"""The values that the port gives to keys that a config.json lacks."""
RULES: Rules = {
    **original.RULES,
    "model_type": text("transfo-xl"),
    "vocab_size": whole(1),
    "mem_len": whole(0, LARGEST_MEMORY),
    "cutoffs": sequence(whole(1)),
    "tie_word_embeddings": flag,
    "proj_share_all_but_first": flag,
}
REQUIRED = ("vocab_size", "cutoffs", "mem_len", "n_layer", "n_head", "d_model", "d_head", "d_inner")


def load_released(path_or_repo: str | Path) -> tuple[TransformerLM, EvaluateConfig]:
    """Return model and evaluation settings from a folder, or a hub repository, in Hugging Face's format.

    Weights are read as safetensors, or as ``torch_files`` reads a file of ``torch.save``: nothing in
    them can run code. ``tie_projs`` wins over ``proj_share_all_but_first``, as in the port, which
    writes it alone. The evaluation window is mem_len where the settings say same_length; with mem_len
    0 there is none, where the port's would hide every key.
    """
    folder = folder_of(path_or_repo)
    path = folder / CONFIG
    content = read_json(path, at_most=CONFIG_BYTES)
    settings = {**DEFAULTS, **checked(content, RULES, file=path, required=REQUIRED)}
    with naming(path):
        _check_keys(content)
        config = original.original_config(_original_keys(settings))
        skeleton(config)  # so that what its clusters can't be is said of this file
        memory = settings["mem_len"]
        window = memory if settings["same_length"] and memory else None
        evaluate = EvaluateConfig(seg_len=128, mem_len=memory, window=window)
    path, tensors = _weights_in(folder)
    with naming(path):
        state = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
        return original.model_of(config, state, cluster_order="released"), evaluate


def _check_keys(content: Mapping[str, Any]) -> None:
    """Raise a ValueError for a key that the port doesn't know, as a misspelt one."""
    for name in content:
        if name not in RULES and name not in OTHERS:
            like = get_close_matches(name, [key for key in RULES if key not in content], n=1)
            meant = f"{like[0]}, which is not given," if like else "a key of the port"
            raise ValueError(
                f"{name} must be {meant} to mean anything, got {content[name]!r:.40}: rename or remove it"
            )


def save_released(
    model: TransformerLM,
    folder: str | Path,
    evaluate: EvaluateConfig | None = None,
    vocabulary: Vocabulary | None = None,
) -> None:
    """Write config.json and model.safetensors so that Hugging Face's port, and ``load_released``, load them.

    ``mem_len`` and ``same_length`` are those of ``evaluate``; without it the port's own, 1600 and
    true. Its ``clamp_len``, if it has one, becomes the model's. The format has no ``seg_len``: what is
    loaded has 128, and without a window the score depends on it. It has no window but mem_len's. A tied
    tensor is written once, as the port does. The metadata hold the tensors' SHA-256, which
    ``load_released`` checks and the port ignores.

    The words of ``vocabulary``, as ``run_folder.trained(folder).tokenizer.vocabulary``, become vocab.txt,
    a word a line, which the port's tokenizer reads if one of them is <unk>. Without them, a text is read
    in a vocabulary counted anew, and the score is wrong unless it comes out the same.

    Raises a ValueError for a model or a vocabulary that the format can't hold: see ``to_original``.
    """
    check_kind("model", model, TransformerLM)
    check_kind("evaluate", evaluate or EvaluateConfig(), EvaluateConfig)
    folder, evaluate = Path(folder), evaluate or EvaluateConfig(mem_len=1600, window=1600)
    if evaluate.window not in (None, evaluate.mem_len):
        raise ValueError(
            f"window must be none or mem_len = {evaluate.mem_len} to be released, got {evaluate.window}"
        )
    if vocabulary is not None:
        _check_vocabulary(vocabulary, model)
    for name in VOCABULARIES:
        if (folder / name).exists() and (vocabulary is None or name != WORDS):
            raise ValueError(f"{folder} must hold no other vocabulary than the model's, got {name}")
    keys, state = original.to_original(model, cluster_order="released", clamp_len=evaluate.clamp_len)
    clusters = len(model.config.cutoffs) + 1
    settings = {
        "architectures": ["TransfoXLLMHeadModel"],
        "model_type": "transfo-xl",
        **{name: value for name, value in keys.items() if name not in ("n_token", "tie_weight")},
        "vocab_size": keys["n_token"],
        "tie_word_embeddings": keys["tie_weight"],
        "tie_projs": [*keys["tie_projs"], *[False] * clusters][:clusters],
        "mem_len": evaluate.mem_len,
        "same_length": evaluate.window is not None,
        "adaptive": True,
        "attn_type": 0,
        "sample_softmax": -1,
        "eos_token_id": 0,
        "torch_dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
    }
    named = {
        name if name.startswith("crit.") else f"transformer.{name}": tensor.cpu().contiguous()
        for name, tensor in state.items()
    }
    exponents = torch.arange(0, model.config.d_model, 2) / model.config.d_model
    named["transformer.pos_emb.inv_freq"] = 10000.0**-exponents  # the port stores its frequencies
    with atomic_write(folder / WEIGHTS[0]) as temporary:
        save_file(named, temporary, metadata={"format": "pt", DIGEST: tensor_digest(named)})
    with atomic_write(folder / CONFIG) as temporary:
        temporary.write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
    if vocabulary is not None:
        with atomic_write(folder / WORDS) as temporary:
            temporary.write_text("".join(f"{word}\n" for word in vocabulary.symbols), "utf-8", newline="\n")


def vocabulary_in(path_or_repo: str | Path) -> list[str] | None:
    """Return the words of the folder's or repository's vocabulary; None where it holds none."""
    folder = folder_of(path_or_repo)
    path = next((folder / name for name in VOCABULARIES if (folder / name).exists()), None)
    if path is None:
        return None
    settings = folder / TOKENIZER
    if settings.exists():
        _check_case(read_json(settings, at_most=CONFIG_BYTES), settings)
    return _words_of_lines(path) if path.name == WORDS else load_released_vocabulary(path)


def _check_case(content: object, path: Path) -> None:
    """Raise a ValueError for a tokenizer that writes a text in lower case first, which ours does not."""
    for name in ("lower_case", "do_lower_case"):
        if isinstance(content, Mapping) and content.get(name):
            raise ValueError(
                f"{path}: {name} must be false, got {content[name]!r}: write the texts in lower case, as the "
                f"vocabulary's words are, and set it to false"
            )


def _words_of_lines(path: Path) -> list[str]:
    """Return the words of vocab.txt, one a line."""
    with plain_file(path).open(encoding="utf-8-sig", newline="\n") as file:
        words = file.read(SMALL).removesuffix("\n").split("\n")
    wrong = next((number for number, word in enumerate(words, 1) if word.split() != [word]), None)
    if wrong is not None:
        raise ValueError(f"{path} must hold one word a line, got {words[wrong - 1]!r:.60} in line {wrong:,}")
    return words


def _check_vocabulary(vocabulary: Vocabulary, model: TransformerLM) -> None:
    """Raise a ValueError for a vocabulary that vocab.txt can't hold, or that is not the model's."""
    check_kind("vocabulary", vocabulary, Vocabulary)
    if len(vocabulary) != model.config.vocab_size:
        raise ValueError(
            f"vocabulary must hold the model's {model.config.vocab_size:,} words, got {len(vocabulary):,}"
        )
    for word in vocabulary.symbols:
        if word.split() != [word]:
            raise ValueError(f"vocabulary must be of words to be released, without spaces, got {word!r}")


def load_released_vocabulary(path: Path) -> list[str]:
    """Return the words of a released vocabulary in the order of their ids. Nothing in the file is run.

    It is read instruction by instruction and not unpickled, whether ``pickle`` or ``torch``
    wrote it. The released words were counted by Python 2, byte by byte: their UTF-8 is put
    together again, and equally frequent ones stand in the order of its dictionaries.
    """
    plain_file(path)
    try:
        tables = [value for value in torch_files.read_objects(path) if isinstance(value, dict)]
    except ValueError as error:
        raise ValueError(f"{path} is not a vocabulary of plain containers, and is not read") from error
    if not tables:
        raise ValueError(f"{path} is not a vocabulary of plain containers, and is not read")
    for table in tables:
        _check_case(table, path)
    words = next((table["idx2sym"] for table in tables if "idx2sym" in table), None)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{path} must hold a list of words named idx2sym")
    try:
        return [word.encode("latin-1").decode() for word in words]
    except UnicodeError:
        return words


def _original_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the original's configuration keys for the port's."""
    shared, ties = settings["proj_share_all_but_first"], settings.get("tie_projs")
    renamed = {
        **settings,
        "n_token": settings["vocab_size"],
        "tie_weight": settings.get("tie_word_embeddings", settings.get("tie_weight", True)),
        "tie_projs": [False, *[shared] * len(settings["cutoffs"])] if ties is None else ties,
    }
    return {name: value for name, value in renamed.items() if name in original.RULES}


def _weights_in(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    path = next((folder / name for name in WEIGHTS if (folder / name).exists()), None)
    if path is None:
        raise ValueError(f"{folder} must hold {' or '.join(WEIGHTS)}")
    plain_file(path)
    if path.suffix != ".safetensors":
        return path, torch_files.read_tensors(path)
    try:
        with safe_open(path, framework="pt") as file:
            digest = (file.metadata() or {}).get(DIGEST)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} must be a whole file of tensors: {error}") from error
    if digest is not None and digest != tensor_digest(tensors):
        raise ValueError(f"{path} is damaged: its tensors do not match its SHA-256")
    return path, tensors
