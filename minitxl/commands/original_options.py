"""Options of the original code's train.py and eval.py that have another name here."""

from collections.abc import Sequence

from minitxl.commands.errors import RefusedFlagError

OPTIONS = {
    "adaptive": "--cutoffs",
    "attn_type": "--attention",
    "batch_chunk": "--accumulate",
    "batch_size": "--batch",
    "cuda": "--device",
    "dataset": "--data or --text",
    "dropatt": "--attention-dropout",
    "eval_interval": "--validate-every",
    "finetune_v2": "--from or --released",
    "finetune_v3": "--from or --released",
    "fp16": "--precision bfloat16",
    "log_interval": "--log-every",
    "lr": "--learning-rate",
    "max_eval_steps": "--validate-tokens, of tokens and not of steps",
    "max_step": "--steps",
    "not_tied": "--no-tie-embeddings",
    "pre_lnorm": "--norm pre",
    "restart": "minitxl train FOLDER",
    "restart_dir": "minitxl train FOLDER",
    "same_length": "--window W, where the original's W is its mem_len",
    "scheduler": "--schedule",
    "tgt_len": "--seg-len",
    "warmup_step": "--warmup",
    "work_dir": "the folder, which is named without a flag",
}
"""By the original's option, what is the same here; those that nothing here stands for are left out."""


WITHOUT = {
    **dict.fromkeys(("optim", "mom"), "the optimizer is AdamW"),
    **dict.fromkeys(("decay_rate", "lr_min"), "--decay-now ends a run by a linear decay"),
    "clip_nonemb": "all gradients are clipped together",
    "debug": "--steps 5 is a short run",
    "eval_tgt_len": "validation reads as training does",
    "ext_len": "it was 0 in every published run, and memory does what it was for",
    **dict.fromkeys(
        ("init", "init_range", "init_std", "emb_init", "emb_init_range", "proj_init_std"),
        "weights are drawn as in every published run",
    ),
    **dict.fromkeys(
        ("multi_gpu", "gpu0_bsz"), "torchrun --nproc-per-node N -m minitxl train shares the lanes"
    ),
    "no_log": "evaluate writes no log",
    "sample_softmax": "the adaptive softmax of --cutoffs is exact",
    **dict.fromkeys(("static_loss_scale", "dynamic_loss_scale"), "--precision bfloat16 needs no loss scale"),
    "varlen": "segments have one length",
}
"""By the original's option that nothing here stands for, why."""
EVALUATE_WITHOUT = {"batch_size": "all tokens are scored in one lane, each with its whole past"}


def refuse(arguments: Sequence[str]) -> None:
    """Raise a RefusedFlagError about the first option that only the original has, or that has its -1."""
    without = WITHOUT | (EVALUATE_WITHOUT if arguments[:1] == ["evaluate"] else {})
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--":
            return
        option, _, value = word.partition("=")
        name = _spelled(option)
        if name in ("clamp_len", "d_embed") and "-1" in (value, following):
            raise RefusedFlagError(f"{option} must be left out where the original has -1, got -1")
        if why := without.get(name):
            raise RefusedFlagError(f"{option} of the original code has no counterpart here: {why}")
        if here := OPTIONS.get(name):
            raise RefusedFlagError(f"{option} is the original code's name, here it is {here}")


def _spelled(option: str) -> str:
    """Return the name of an option with underscores; "" for a word that is none."""
    return option.removeprefix("--").replace("-", "_") if option.startswith("--") else ""
