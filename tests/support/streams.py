"""A stream whose reader has gone."""

import io


class Abandoned(io.TextIOBase):
    """A stream that nobody reads: the first flush after something was written fails."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        """Refuse the text."""
        raise BrokenPipeError(32, "Broken pipe")
