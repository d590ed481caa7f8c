"""The error that the command line raises while it reads its words."""


class RefusedFlagError(Exception):
    """A value of the command line that is refused while it is parsed, in one sentence."""
