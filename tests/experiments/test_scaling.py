from dataclasses import asdict, replace
from functools import partial
from typing import get_args, get_type_hints

import pytest
import torch
from support.experiments import run
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from minitxl import figures
from minitxl.adaptive import AdaptiveSoftmax
from minitxl.analysis import flops, saved_tensors
from minitxl.analysis.saved_tensors import saved_bytes
from minitxl.benchmark import limits
from minitxl.benchmark.peers import Size
from minitxl.config import ModelConfig
from minitxl.data import corpora
from minitxl.experiments import scaling as experiment
from minitxl.fast import optimize
from minitxl.model import TransformerLM
from minitxl.pretrained.presets import FOR_ONE_CORE, PRESETS, Name, enwik8_base
from minitxl.training.config import TrainConfig

CORPUS = corpora.from_bytes("no", b"text matters")
SMALL = ModelConfig(vocab_size=30, n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=32)
RARE = replace(SMALL, cutoffs=(4, 9, 15), div_val=2)
SHORT = TrainConfig(seg_len=4, mem_len=6, batch=4, steps=100)


def toy_settings():
    settings = experiment.settings("quick", CORPUS)
    presets = {"plain": (SMALL, SHORT), "rare words": (RARE, replace(SHORT, average_from=1))}
    return settings | {
        "presets": {
            name: {"model": asdict(model), "train": asdict(train)} for name, (model, train) in presets.items()
        },
        "timed": {"plain": 2},
        "reduced": {"processes": 2, "bytes": 4000, "rounds": 3},
    }


@pytest.fixture(scope="module")
def data():
    return run(experiment, toy_settings(), CORPUS, seeds=[0])


def test_scaling_runs_end_to_end_at_toy_size(data):
    (timed,) = data["timed"]
    assert (timed["preset"], timed["batch"], timed["published_batch"]) == ("plain", 2, 4)
    assert timed["operations_per_second"] == pytest.approx(
        timed["operations"] / timed["seconds"]["median"], rel=1e-3
    )
    assert (data["link"]["backend"], data["link"]["processes"]) == ("gloo", 2)
    assert data["links"]["measured"] == data["link"]["gigabytes_per_second"] > 0
    plain, rare = data["presets"].values()
    assert plain["rate_of"] == rare["rate_of"] == "plain"
    for row in (plain, rare):
        assert [one["gpus"] for one in row["gigabytes"]] == [1, 2, 4]
        seconds = row["operations_per_step"] * 100 / timed["operations_per_second"]
        assert row["cost"]["measured"]["days"] == pytest.approx(seconds / 86_400, rel=1e-3)
    assert "plain on 4: " in figures.scaling_memory(data).alt
    assert "10-gigabit Ethernet, 1.25 GB/s: " in figures.scaling(data).alt


def test_the_presets_are_those_of_training_at_their_published_settings():
    assert get_args(Name) == tuple(PRESETS)
    settings = experiment.settings("full", CORPUS)
    assert settings["timed"].keys() <= settings["presets"].keys()
    assert settings["presets"].keys() == PRESETS.keys() - set(FOR_ONE_CORE)
    for name in settings["presets"]:
        preset = PRESETS[name]()
        assert experiment._preset(settings, name) == (preset.model, preset.train)
        assert preset.train.batch >= settings["timed"].get(name, 1)


def test_one_process_sends_nothing_and_several_wait_for_their_links():
    alone = experiment.several(2.0, 10**9, SHORT, parts=1, rate=1e9)
    tokens = SHORT.batch * SHORT.seg_len
    assert (
        alone["apart"]
        == alone["overlapped"]
        == {
            "seconds": 2.0,
            "efficiency": 1.0,
            "tokens_per_second": tokens / 2,
        }
    )
    four = experiment.several(2.0, 10**9, SHORT, parts=4, rate=1e9)
    assert four["apart"]["seconds"] == 2 / 4 + 2 * 3 / 4
    assert four["overlapped"]["seconds"] == 2 * 3 / 4
    assert four["apart"]["efficiency"] == 0.25
    assert experiment.several(2.0, 10**9, SHORT, parts=4, rate=1e30)["apart"]["efficiency"] == 1.0


def test_a_step_has_the_operations_that_the_benchmark_counts():
    shapes = {name: getattr(SMALL, name) for name in ("n_layer", "d_model", "n_head", "d_head", "d_inner")}
    size = Size(**shapes, batch=4, seg_len=4, mem_len=6, dropout=0.1, vocab_size=30)
    assert flops.step_operations(SMALL, SHORT) == limits.operations(size, "training", block=1)


def targets_by_zipf(cut, tokens):
    """Ids, as many in each cluster as the experiment counts with, rounded."""
    clusters = flops.clusters(cut, replace(SHORT, batch=1, seg_len=tokens))
    own = [round(one) for *_, one in clusters]
    return torch.cat([torch.full((many,), low) for many, low in zip(own, cut.starts, strict=True)]).unsqueeze(
        0
    )


@pytest.mark.parametrize("attention", get_args(get_type_hints(ModelConfig)["attention"]))
def test_operations_of_a_layer_are_those_a_counter_counts(attention):
    """A model with a layer more has the operations of a layer more."""
    tokens = torch.zeros(3, 8, dtype=torch.int64)

    def counted(n_layer, mem_len, *, training):
        model = TransformerLM(replace(SMALL, attention=attention, n_layer=n_layer, max_distance=2))
        memory = torch.zeros(n_layer, 3, mem_len, SMALL.d_model)
        with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(training):
            losses, _ = model.token_losses(tokens, tokens, memory)
            if training:
                losses.sum().backward()
        return counter.get_total_flops()

    one_more = replace(SMALL, attention=attention, n_layer=1, max_distance=2)
    lengths = {"batch": 3, "seg_len": 8, "block": 8}
    operations = flops.layer_operations(one_more, **lengths, mem_len=0, training=True)
    assert operations == counted(2, 0, training=True) - counted(1, 0, training=True)
    read_again = 2 * 2 * 3 * 5 + 2 * (5 + 8) * (attention == "xl")  # keys, values and distances of a cache
    operations = flops.layer_operations(one_more, **lengths, mem_len=5, training=False)
    operations += read_again * SMALL.d_model * SMALL.n_head * SMALL.d_head
    assert operations == counted(2, 5, training=False) - counted(1, 5, training=False)


@pytest.mark.parametrize("div_val", [1, 2])
def test_operations_of_rare_words_are_those_a_counter_counts(div_val):
    model, train = replace(RARE, div_val=div_val), replace(SHORT, batch=1, seg_len=1000, mem_len=0)
    whole = TransformerLM(model)
    targets = targets_by_zipf(whole.output.partition, 1000)
    hidden = torch.randn(1, targets.shape[1], 16, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        whole.output.losses(hidden, targets).sum().backward()
        whole.embedding(targets).sum().backward()
    bare = replace(model, vocab_size=1, cutoffs=(), div_val=1)
    rest = flops.step_operations(bare, train) - 6 * 1000 * 16
    operations = flops.step_operations(model, train) - rest
    assert operations == pytest.approx(counter.get_total_flops(), rel=0.01)


def kept_on_meta(model, train):
    """Bytes that the whole model keeps, counted as it runs."""
    with torch.device("meta"):
        whole = TransformerLM(replace(model, attention_dropout=0.0)).train()
        tokens = torch.zeros(train.batch, train.seg_len, dtype=torch.int64)
        memory = torch.zeros(model.n_layer, train.batch, train.mem_len, model.d_model)
    return saved_bytes(partial(optimize(whole).token_losses, tokens, tokens, memory), whole.parameters())


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_linear_layer_keeps_its_input_once_and_a_relu_its_output(device):
    layer = nn.Linear(5, 7, device=device)
    x = torch.zeros(3, 5, device=device, requires_grad=True)
    assert saved_bytes(lambda: layer(x), layer.parameters()) == 3 * 5 * 4
    assert saved_bytes(lambda: layer(x) + layer(x), layer.parameters()) == 3 * 5 * 4
    assert saved_bytes(lambda: layer(x).relu(), layer.parameters()) == 3 * (5 + 7) * 4


@pytest.mark.parametrize("batch", [1, 3])
def test_bytes_kept_by_one_layer_and_around_make_those_of_the_model(batch):
    model = replace(enwik8_base().model, n_layer=3)
    train = replace(enwik8_base().train, batch=batch, seg_len=128, mem_len=192)
    saved = 3 * saved_tensors.layer_bytes(model, train) + saved_tensors.output_bytes(model, train)
    assert saved == pytest.approx(kept_on_meta(model, train), rel=0.01)


@pytest.mark.parametrize("div_val", [1, 2])
def test_bytes_kept_by_rare_words_are_those_that_are_saved(div_val):
    model = replace(RARE, vocab_size=3000, cutoffs=(400, 900, 1500), div_val=div_val, dropout=0.0)
    output = AdaptiveSoftmax(3000, 16, 16, cutoffs=model.cutoffs, div_val=div_val)
    targets = targets_by_zipf(output.partition, 2000)
    kept = {one.untyped_storage().data_ptr(): 0 for one in output.parameters()}
    alive = []

    def keep(tensor):
        alive.append(tensor)
        if tensor.is_floating_point():
            kept.setdefault(tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        output.losses(torch.randn(1, targets.shape[1], 16, requires_grad=True), targets)
    train = replace(SHORT, batch=1, seg_len=2000)
    assert saved_tensors.output_bytes(model, train) == pytest.approx(sum(kept.values()), rel=0.02)


def test_more_gpus_hold_less_each_but_for_what_all_of_them_hold():
    one, two = (saved_tensors.held(SMALL, SHORT, parts=parts) for parts in (1, 2))
    assert (
        one["weights"]
        == two["weights"]
        == 4 * sum(parameter.numel() for parameter in TransformerLM(SMALL).parameters())
    )
    assert (one["buckets"], two["buckets"]) == (0, one["weights"])
    assert two["states"] == one["states"] / 2
    assert two["activations"] < one["activations"]
    averaged = saved_tensors.held(SMALL, replace(SHORT, average_from=1), parts=1)
    assert (one["average"], averaged["average"]) == (0, one["weights"])


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_a_step_is_timed_when_memory_is_full(profile):
    settings = experiment.settings(profile, CORPUS)
    for name in settings["timed"]:
        _, train = experiment._preset(settings, name)
        assert settings["warm_up"] * train.seg_len >= train.mem_len
