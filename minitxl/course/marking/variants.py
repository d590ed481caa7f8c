"""Numbers that are each student's own, drawn from the user name and the course's year."""

import hashlib
from collections.abc import Sequence


def variant(student: str | int, *, year: object = "", **choices: Sequence[int]) -> dict[str, int]:
    """Return one of each of the choices, always the same for the same student in the same year."""
    name = str(student).strip().casefold() + (f"/{year}" if year else "")

    def drawn(choice: str, among: Sequence[int]) -> int:
        digest = hashlib.sha256(f"{name}/{choice}".encode()).digest()
        return among[int.from_bytes(digest[:8], "big") % len(among)]

    return {choice: drawn(choice, among) for choice, among in choices.items()}
