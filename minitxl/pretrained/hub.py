"""Files of released models from the Hugging Face hub: what is needed of them, downloaded once."""

from pathlib import Path

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
VOCABULARIES = ("vocab.bin", "vocab.pkl")
"""Names of the weights and of the vocabulary; of each, the first that is there is used."""


def folder_of(path_or_repo: str | Path) -> Path:
    """The folder itself, or that of a repository's settings, vocabulary and weights, downloaded once."""
    if Path(path_or_repo).is_dir():
        return Path(path_or_repo)
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    lost: tuple[type[Exception], ...] = HfHubHTTPError.__bases__  # its client's errors, and OSError
    try:
        if (settings := _downloaded(path_or_repo, ("config.json",))) is not None:
            folder = settings.parent
            _downloaded(path_or_repo, VOCABULARIES, commit=folder.name)
            if _downloaded(path_or_repo, WEIGHTS, commit=folder.name) is not None:
                return folder
    except (HFValidationError, RepositoryNotFoundError) as error:
        raise ValueError(
            f"{path_or_repo} is neither a folder nor a hub repository that can be reached"
        ) from error
    except lost as error:
        raise ValueError(
            f"{path_or_repo} can't be downloaded from the hub: try again with a connection, or put its "
            f"config.json, {' or '.join(WEIGHTS)}, and {' or '.join(VOCABULARIES)} into a folder by hand"
        ) from error
    wanted = "config.json" if settings is None else " or ".join(WEIGHTS)
    raise ValueError(f"the repository {path_or_repo} must hold {wanted}, got none")


def _downloaded(repo: str | Path, names: tuple[str, ...], commit: str | None = None) -> Path | None:
    """Return the first of these files that the repository has; None where it has none."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    for name in names:
        kept = try_to_load_from_cache(str(repo), name, revision=commit) if commit else None
        if kept is None:
            try:
                kept = hf_hub_download(str(repo), name, revision=commit)
            except LocalEntryNotFoundError:
                raise
            except EntryNotFoundError:
                continue
        if isinstance(kept, str):
            return Path(kept)
    return None
