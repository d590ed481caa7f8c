"""Options of the original code's train.py and eval.py that have another name here."""

from collections.abc import Sequence

from minitxl.commands.shared import RefusedFlagError

OPTIONS = {
    "adaptive": "--cutoffs",
    "attn_type": "--attention",
    "batch_chunk": "--accumulate",
    "batch_size": "--batch",
    "cuda": "--device",
    "dataset": "--data or --text",
    "dropatt": "--attention-dropout",
    "eval-interval": "--validate-every",
    "finetune_v2": "--from or --released",
    "finetune_v3": "--from or --released",
    "fp16": "--precision bfloat16",
    "log-interval": "--log-every",
    "lr": "--learning-rate",
    "max_eval_steps": "--validate-tokens",
    "max_step": "--steps",
    "not_tied": "--no-tie-embeddings",
    "pre_lnorm": "--norm pre",
    "restart": "minitxl train FOLDER",
    "restart_dir": "minitxl train FOLDER",
    "same_length": "--window",
    "scheduler": "--schedule",
    "split": "--part",
    "tgt_len": "--seg-len",
    "warmup_step": "--warmup",
    "work_dir": "the folder, which is named without a flag",
}
"""By the original's option, what is the same here; those that nothing here stands for are left out."""


def refuse(arguments: Sequence[str]) -> None:
    """Raise a RefusedFlagError that gives the name here, for the first option of the original's."""
    options = {f"--{name.replace('_', '-')}": here for name, here in OPTIONS.items()}
    for word in arguments:
        if word == "--":
            return
        option = word.split("=", 1)[0]
        if here := options.get(option.replace("_", "-")):
            raise RefusedFlagError(f"{option} is the original code's name, here it is {here}")
