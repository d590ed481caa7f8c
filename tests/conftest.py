"""Every shape in a signature is checked while the tests run."""

import jaxtyping
import pytest
import torch
from hypothesis import settings

jaxtyping.install_import_hook("minitxl", "beartype.beartype")
torch.set_num_threads(1)  # the tensors are tiny
settings.register_profile("minitxl", deadline=None, max_examples=60)
settings.load_profile("minitxl")


@pytest.fixture
def as_users_run_it():
    """Without the shape checks, which would speak before the package's own errors do."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
