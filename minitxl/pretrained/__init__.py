"""Published settings and published weights.

    presets          published configurations
    released         released models in Hugging Face's format: settings, weights and vocabulary
    hub              downloads the files of a released model, once
    port_keys        settings of such a model that say nothing about what it computes
    original         the original code's names of parameters, and ours
    original_module  the original code's ``model.pt``, a whole pickled module
    torch_files      files of ``torch.save``
    pickled          the content of a pickle

None of these files is unpickled: what they hold is read without running any of it.
"""
