import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, islice, repeat
from pathlib import Path

import pytest
import torch
from support.forked_worker import Forked
from torch.utils.flop_counter import FlopCounterMode

from minitxl.benchmark import bench, limits, peers, systems, workers
from minitxl.benchmark.peers import Job, Size
from minitxl.benchmark.workers import Worker, step, worker
from minitxl.experiments.shared.runner import rounded, spread
from minitxl.fast import bfloat16, kv_cache
from minitxl.figures import bench as draw
from minitxl.figures import bench_generation, bench_memory
from minitxl.model import TransformerLM

ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".venv-peers" / "bin" / "python"
TINY = Size(2, 16, 2, 8, 32, batch=3, seg_len=6, mem_len=9, dropout=0.1, vocab_size=37)
WORKS = ("training", "cached evaluation", "generation")


def job(system: str, work: str = "training", size: Size = TINY) -> Job:
    return Job(system, work, size, threads=1, device="cpu", precision="float32", seed=0)


class Stand(Worker):
    """A worker that takes ``seconds`` of its own choice, and notes its turns."""

    def __init__(self, name: str, turns: list[str], seconds: Iterator[float]) -> None:
        self.name, self.turns, self.seconds = name, turns, seconds

    def ask(self, what):
        self.turns.append(self.name)
        return {"seconds": next(self.seconds), "finite": True}


class Steady(Worker):
    """A worker whose every turn takes a second, or three in float32."""

    def __init__(self, precision: str) -> None:
        self.seconds = 3.0 if precision == "float32" else 1.0

    def hear(self):
        return {"parameters": 1, "versions": {}}

    def ask(self, what):
        return {"seconds": self.seconds, "finite": True}


def test_every_round_times_every_system_once_and_begins_with_the_next(monkeypatch):
    monkeypatch.setattr(bench, "PAUSE", 0)
    turns = []
    workers = {name: Stand(name, turns, iter((0.0, 1.0, 2.0, 3.0))) for name in "abc"}
    times = bench.rounds(workers, 4)
    assert "".join(turns) == "abcbcacababc"
    assert times == {name: [0.0, 1.0, 2.0, 3.0] for name in "abc"}


def test_what_is_not_finite_is_refused_by_name():
    class Broken(Worker):
        def __init__(self):
            pass

        def ask(self, what):
            return {"seconds": 1.0, "finite": False}

    with pytest.raises(ValueError, match=r"^labml-nn must return finite numbers, got others$"):
        step(Broken(), "labml-nn")


def test_medians_quartiles_and_range():
    assert spread([5.0, 1.0, 2.0, 4.0, 3.0]) == {
        "median": 3.0,
        "quartiles": [2.0, 4.0],
        "range": [1.0, 5.0],
    }
    assert spread([1.23456, 1.23456])["median"] == 1.235


def test_a_speed_is_a_ratio_within_a_round():
    """The machine is twice as slow in the second round, and the ratio does not notice."""
    times = {"reference": [3.0, 6.0, 3.0], "quick": [1.0, 2.0, 1.0]}
    assert bench.speeds(times, "reference") == {"reference": [1, 1, 1], "quick": [3, 3, 3]}


def test_the_rate_is_that_of_the_best_product():
    times = {name: [1.0, 9.0, 1.0] for name in limits.PRODUCTS}
    cube, layer = (2 * 2048**3, 2 * 18 * 16 * 32 * limits.product_repeats(limits.PRODUCTS[1], TINY))
    assert 0 <= layer - cube < 2 * 18 * 16 * 32
    assert limits.matrix_rate(times, TINY) == layer
    times[limits.PRODUCTS[0]] = [0.5, 0.5, 9.0]
    assert limits.matrix_rate(times, TINY) == 2 * cube
    times[limits.ONEDNNS_PRODUCTS[0]] = [0.25, 0.25, 9.0]
    assert limits.matrix_rate(times, TINY) == 4 * cube


@pytest.mark.parametrize("system", [*limits.PRODUCTS, *limits.ONEDNNS_PRODUCTS])
def test_a_timed_product_is_one_of_the_shape_that_it_is_counted_as(system, monkeypatch):
    monkeypatch.setattr(limits, "product_repeats", lambda system, size: 1)
    monkeypatch.setattr(limits, "product_shape", lambda system, size: (6, 4, 10))
    _, products = limits.build_product(job(system))
    with FlopCounterMode(display=False) as counter:
        assert next(products).shape == (6, 10)
    assert counter.get_total_flops() == 2 * 6 * 4 * 10


def test_a_token_reads_every_weight_that_decoding_uses_and_the_cache():
    """Weights are counted by what a step of the cache touches: all but those that project distances."""
    model = TransformerLM(limits.config(TINY)).eval()
    cache = kv_cache.start(model, batch=3, mem_len=9)
    for _ in range(2):
        _, cache = kv_cache.step(model, torch.zeros(3, 9, dtype=torch.int64), cache)
    used = sum(weight.numel() for name, weight in model.named_parameters() if "W_kR" not in name)
    layer, both, batch, head, _, dim = cache.buffers.shape
    memory = (cache.end - cache.begin) * layer * head * dim
    assert limits.bytes_read(TINY) == 4 * (used + both * batch * memory + memory)


def test_the_limit_of_generation_is_reading_and_of_the_rest_the_fastest_product():
    assert limits.limits_of("generation", "cpu") == (limits.READING,)
    assert limits.limits_of("training", "cuda") == limits.PRODUCTS
    times = {"minitxl": [2.0, 2.0], limits.READING: [0.5, 0.5]}
    row = limits.shares(times, "generation", TINY)
    assert row["read_rate"] == rounded(2.0 * limits.READ_BYTES)
    assert row["fraction_of_read_rate"] == rounded(limits.bytes_read(TINY) / 2 / (2 * limits.READ_BYTES))
    assert row["tokens_per_second"] == rounded(TINY.batch * TINY.seg_len / 2)
    assert limits.shares(times, "generation", TINY, "bfloat16")["bytes"] == row["bytes"] / 2
    _, passes = limits.build_reading(job(limits.READING))
    assert next(passes) == 1


@pytest.mark.parametrize("size", [TINY, replace(TINY, mem_len=0), replace(TINY, seg_len=5, mem_len=3)])
def test_operations_are_those_a_counter_counts(size):
    """In the eager model, which is one block, and which alone computes a gradient of the
    memory's keys and values to throw it away."""
    model, ids = TransformerLM(limits.config(size)), torch.randint(37, (size.batch, size.seg_len))
    memory = torch.randn(size.n_layer, size.batch, size.mem_len, size.d_model)
    with FlopCounterMode(display=False) as counter:
        losses, _ = model.token_losses(ids, ids, memory)
        forward = counter.get_total_flops()
        losses.mean().backward()
    past = 2 * size.batch * size.mem_len * size.d_model * size.n_head * size.d_head
    thrown_away = size.n_layer * 2 * past
    whole = limits.operations(size, "training", block=size.seg_len)
    assert counter.get_total_flops() == whole + thrown_away
    distances = 2 * (size.mem_len + size.seg_len) * size.d_model * size.n_head * size.d_head
    kept = size.n_layer * (2 * past + distances)
    assert forward == limits.operations(size, "cached evaluation", block=size.seg_len) + kept


def test_smaller_blocks_have_fewer_operations_and_never_fewer_than_are_used():
    counts = [limits.operations(TINY, "cached evaluation", block=block) for block in (1, 2, 4, 6, 100)]
    assert counts == sorted(counts)
    assert counts[-1] == counts[-2]
    pairs = (TINY.seg_len - 1) * TINY.seg_len // 2  # of a query and a later key
    assert counts[-1] - counts[0] == 2 * TINY.n_layer * 3 * TINY.batch * pairs * TINY.n_head * TINY.d_head


@pytest.mark.parametrize("name", [*bench.DEFAULT, *bench.OF_WORDS])
def test_an_item_is_named_by_its_work_and_its_size(name):
    work, size_name, size = bench.item(name)
    assert work in (*WORKS, "peak memory")
    assert name.endswith(f"-{size_name}")
    assert size.d_model == bench.SIZES[size_name].d_model
    if work == "generation":
        assert (size.batch, size.seg_len, size.mem_len) == (16 if size_name == "M16" else 1, 1, 512)


@pytest.mark.parametrize(
    ("system", "work"),
    [(one, work) for work in WORKS for one in bench.systems_of(work, TINY) if one in systems.SYSTEMS],
)
def test_our_systems_work_with_finite_results(system, work):
    size = replace(TINY, batch=1, seg_len=1) if work == "generation" else TINY
    model, iterations = systems.SYSTEMS[system][0](job(system, work, size))
    before = [parameter.clone() for parameter in model.parameters()]
    results = list(islice(iterations, 4))
    assert all(result.isfinite().all() for result in results)
    changed = [not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert any(changed) == (work == "training")
    assert model.training == (work == "training")


RARE = replace(TINY, vocab_size=1000, cutoffs=(50, 400), div_val=4)
"""Words in three clusters."""


@pytest.mark.parametrize("work", WORKS[:2])
def test_our_systems_read_words_of_an_adaptive_softmax_with_finite_results(work):
    assert bench.systems_of(work, RARE) == (*bench.OURS, "transformers")
    for system in bench.OURS:
        model, iterations = systems.SYSTEMS[system][0](job(system, work, RARE))
        assert all(result.isfinite().all() for result in islice(iterations, 3))
        assert sum(one.numel() for one in model.parameters()) < 1000 * 16 + 10_000


def test_words_are_as_often_as_zipfs_law_says():
    """A third of the draws are a word of the ten most frequent, and none lies outside the vocabulary."""
    ids = peers.text(job("vanilla", size=replace(RARE, seg_len=50)))
    assert ids.dtype == torch.int32
    assert 0 == ids.min() < ids.max() < 1000
    harmonic = (1 / torch.arange(1.0, 1001)).cumsum(0) / (1 / torch.arange(1.0, 1001)).sum()
    for first in (1, 10, 100):
        assert (ids < first).float().mean().item() == pytest.approx(harmonic[first - 1].item(), abs=0.01)


def test_an_adaptive_softmax_has_the_operations_that_a_counter_counts_for_its_shares():
    """The counter sees the drawn targets; over many segments their shares are those of Zipf's law."""
    size = replace(RARE, batch=8, seg_len=256, mem_len=0, n_layer=1)
    ids = peers.text(job("vanilla", size=size))[:, : size.seg_len].long()
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        TransformerLM(limits.config(size)).eval().token_losses(ids, ids)
    distances = 2 * size.seg_len * size.d_model * size.n_head * size.d_head
    counted = limits.operations(size, "cached evaluation", block=size.seg_len) + distances
    assert counter.get_total_flops() == pytest.approx(counted, rel=0.02)


@pytest.mark.parametrize("work", WORKS[1:])
def test_our_two_ways_read_the_same(work):
    size = replace(TINY, batch=1, seg_len=1) if work == "generation" else TINY
    read = []
    for system in ("minitxl", "minitxl-explicit"):
        torch.manual_seed(0)
        _, iterations = systems.SYSTEMS[system][0](job(system, work, size))
        read.append([result[..., -1:, :] if result.ndim else result for result in islice(iterations, 4)])
    for cached, explicit in zip(*read, strict=True):
        torch.testing.assert_close(cached, explicit, rtol=1e-4, atol=1e-5)


def test_every_system_reads_the_same_text():
    """That of ``ContiguousBatches`` for training, and the start of it to generate from."""
    segments = peers.segments(job("vanilla"))
    (first, after), (second, _) = next(segments), next(segments)
    ids = peers.text(job("vanilla")).long()
    assert torch.equal(torch.cat([first, second], dim=1), ids[:, :12])
    assert torch.equal(after, ids[:, 1:7])
    segments = systems.ContiguousBatches(ids.flatten(), batch=3, seg_len=6)
    assert torch.equal(segments[1].tokens, second)
    assert len(segments) == peers.SEGMENTS


@pytest.fixture
def small(monkeypatch):
    """Every size is tiny, and two systems of ours take part."""
    monkeypatch.setattr(bench, "SIZES", {"S": TINY, "M": TINY})
    monkeypatch.setattr(bench, "LENGTHS", {"generation": {"batch": 1, "seg_len": 1}})
    monkeypatch.setattr(bench, "limits_of", lambda work, device: limits.limits_of(work, device)[:1])
    monkeypatch.setattr(bench, "PROCESSES", {"cpu": 2, "cuda": 2})
    monkeypatch.setattr(
        bench,
        "systems_of",
        lambda work, size: ("minitxl-explicit", "transformers") if work == "peak memory" else bench.OURS,
    )


def asked(names, **changes):
    return bench.settings(names, **{"rounds": 3, "warm_up": 1, "threads": 1, "peers": False, **changes})


def run(settings, **changes):
    return bench.run(settings, **{"peers": Path("none"), "device": "cpu", "seed": 0, **changes})


def test_bfloat16_is_refused_on_a_cpu_without_it(monkeypatch):
    monkeypatch.setattr(bfloat16, "instructions", list)
    with pytest.raises(ValueError, match="must be float32 on a CPU without avx512_bf16 or amx_bf16"):
        run(asked(("training-S",), precision="bfloat16"))


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("system", ["minitxl", "minitxl-rotary", "vanilla"])
def test_our_systems_work_in_bfloat16_on_a_cpu(work, system, monkeypatch):
    monkeypatch.setattr(bfloat16, "instructions", lambda: ["avx512_bf16"])
    monkeypatch.setattr(bfloat16, "works_here", lambda: True)
    size = replace(TINY, seg_len=1) if work == "generation" else TINY
    _, iterations = systems.SYSTEMS[system][0](replace(job(system, work, size), precision="bfloat16"))
    assert all(result.isfinite().all() for result in islice(iterations, 3))


def test_prompts_of_several_texts_are_of_different_lengths():
    mask = systems.of_different_lengths(torch.zeros(4, 8))
    assert mask.sum(dim=1).tolist() == [2, 4, 6, 8]
    assert mask[:, -1].all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_small_benchmark_on_a_gpu(small, precision):
    items = ("training-S", "evaluation-S", "generation-M", "memory-S")
    data = run(asked(items, precision=precision), device="cuda")
    assert [row["work"] for row in data["items"]] == [bench.item(name)[0] for name in items]


def test_races_of_another_kind_have_a_result_of_their_own():
    assert bench.result_name(asked(bench.DEFAULT)) == "bench"
    assert bench.result_name(asked(bench.OF_WORDS[:1])) == "bench_words"
    assert bench.result_name(asked((*bench.OF_WORDS, "training-S"))) == "bench"
    in_bfloat16 = asked(bench.OF_WORDS, precision="bfloat16")
    assert bench.result_name(in_bfloat16) == "bench_words_bfloat16"
    assert bench.result_name(in_bfloat16 | {"reference": "transformers"}) == "bench_words"  # as on a GPU


@pytest.mark.parametrize(
    ("precision", "device", "peers", "reference"),
    [
        ("float32", "cpu", True, "transformers"),
        ("float32", "cpu", False, "minitxl-explicit"),
        ("bfloat16", "cpu", True, "transformers-float32"),
        ("bfloat16", "cpu", False, "minitxl-float32"),
        ("bfloat16", "cuda", True, "transformers"),
    ],
)
def test_the_reference_is_the_port_in_a_precision_that_it_can_compute(precision, device, peers, reference):
    assert asked(("training-S",), precision=precision, device=device, peers=peers)["reference"] == reference


def test_a_race_in_bfloat16_on_a_cpu_has_float32_beside_it(small, monkeypatch):
    """Each worker is asked for the precision that its name says; float32 takes 3 times as long."""
    monkeypatch.setattr(bfloat16, "instructions", lambda: ["avx512_bf16"])
    monkeypatch.setattr(bfloat16, "works_here", lambda: True)
    jobs = []
    monkeypatch.setattr(
        bench, "worker", lambda job, python: jobs.append(job) or nullcontext(Steady(job.precision))
    )
    (row,) = run(asked(("generation-M",), precision="bfloat16"))["items"]
    raced = {(job.system, job.precision) for job in jobs if job.system in systems.SYSTEMS}
    assert raced >= {("minitxl", "bfloat16"), ("minitxl-rotary", "bfloat16"), ("minitxl", "float32")}
    assert set(row["systems"]) == {"minitxl", "minitxl-rotary", "minitxl-float32"}
    assert row["systems"]["minitxl-float32"]["speed"]["quartiles"] == [1, 1]
    assert row["systems"]["minitxl"]["over_float32"]["quartiles"] == [3, 3]
    assert "over_float32" not in row["systems"]["minitxl-rotary"]


def test_the_port_is_raced_in_float32_alone():
    raced = bench.in_both_precisions(bench.systems_of("training", TINY))
    assert {"x-transformers", "x-transformers-float32", "transformers-float32"} < set(raced)
    assert "transformers" not in raced


def test_a_small_benchmark_of_our_systems(small, monkeypatch):
    """The first whose memory is measured is started as a user's is, and all other workers are forked."""
    kinds = chain(repeat(Forked, 4), [workers.Popen], repeat(Forked))
    monkeypatch.setattr(workers, "Popen", lambda command, **how: next(kinds)(command, **how))
    labels = []
    data = run(asked(("generation-M", "memory-S")), report=lambda label, total: labels.append((label, total)))
    generated, held = data["items"]
    assert data["reference"] == "minitxl-explicit"
    assert data["machine"] == "1 CPU thread"
    assert (generated["work"], held["work"]) == ("generation", "peak memory")
    assert set(generated["systems"]) == set(bench.OURS)
    for told in generated["systems"].values():
        assert 0 < told["seconds"]["range"][0] <= told["seconds"]["median"] <= told["seconds"]["range"][1]
    assert generated["systems"]["minitxl-explicit"]["speed"]["quartiles"] == [1, 1]
    assert held["systems"].keys() == {"minitxl-explicit"}
    assert 0 < held["systems"]["minitxl-explicit"]["megabytes"]["median"] < 100
    assert data["versions"]["minitxl"].keys() == {"torch", "minitxl"}
    assert labels == [("generation, M", 3)] * 3 + [("peak memory, S", 2)] * 2
    assert " MB (" in bench.table(data)


def test_a_race_tells_what_part_of_the_best_products_rate_is_reached(small, tmp_path, monkeypatch):
    """Every worker takes a second, so the best product does 2048³ multiplications and additions in one."""
    monkeypatch.setattr(sys, "executable", str(stand_in(tmp_path, "ours", READY, STEPS)))
    data = run(asked(("training-S",)))
    (row,) = data["items"]
    assert row["matrix_rate"] == rounded(2.0 * 2048**3)
    assert row["operations"] == limits.operations(TINY, "training")
    assert row["fraction_of_matrix_rate"] == rounded(row["operations"] / (2 * 2048**3))
    assert row["systems"].keys() == set(bench.OURS)
    assert row["systems"]["minitxl"]["speed"] == {"median": 1, "quartiles": [1, 1], "range": [1, 1]}
    assert "of the 17 GFLOP/s of the fastest matrix product" in bench.table(data)


def stand_in(folder: Path, name: str, *lines: str) -> Path:
    """A python that answers every job in its own way."""
    path = folder / name
    path.write_text("\n".join(["#!/bin/sh", "read job", *lines, ""]))
    path.chmod(0o755)
    return path


READY = """echo '{"parameters": 1, "versions": {}}'"""
STEPS = """while read step; do echo '{"seconds": 1.0, "finite": true}'; done"""


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            [r"""printf '%s\n' '{"error": "ImportError: no module\nand more"}'"""],
            "transformers must finish its training, got ImportError: no module",
        ),
        (
            ["echo loading >&2", "echo killed by nobody >&2", "exit 3"],
            "transformers must finish its training, got exit code 3 and killed by nobody",
        ),
        (
            [READY, "read step", "kill -9 $$"],
            "transformers must finish its training, got exit code -9 and no word of why",
        ),
    ],
)
def test_an_error_of_a_worker_is_one_sentence_and_no_process_survives(
    lines, sentence, tmp_path, monkeypatch, small
):
    """The others wait for their turn, and are ended too."""
    started = []

    class Noted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(workers, "Popen", Noted)
    monkeypatch.setattr(sys, "executable", str(stand_in(tmp_path, "ours", READY, STEPS)))
    monkeypatch.setattr(bench, "systems_of", lambda work, size: ("minitxl", "transformers", "vanilla"))
    with pytest.raises(ValueError, match=r"transformers") as told:
        run(asked(("training-S",), peers=True), peers=stand_in(tmp_path, "theirs", *lines))
    assert str(told.value) == sentence
    assert len(started) == 4
    for process in started:
        assert process.returncode is not None
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


def test_a_peer_that_is_not_installed_is_told_by_name():
    sentence = (
        "^transformers must finish its training, got ModuleNotFoundError: No module named 'transformers'$"
    )
    with (
        worker(job("transformers"), sys.executable) as one,
        pytest.raises(ValueError, match=sentence),
    ):
        one.hear()


def test_what_a_library_prints_does_not_reach_the_answers():
    code = (
        "import io, sys; from minitxl.benchmark import peers\n"
        "peers.serve = lambda questions: (print('chatter') or {'heard': q} for q in questions)\n"
        "peers.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input='{"do": "step"}\n', capture_output=True, text=True, check=True
    )
    assert done.stdout == '{"heard": {"do": "step"}}\n'
    assert done.stderr == "chatter\n"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rounds": 1}, "rounds must be 2 or more, got 1"),
        ({"warm_up": -1}, "warm_up must be 0 or more, got -1"),
        ({"threads": 0}, "threads must be 1 or more, got 0"),
    ],
)
def test_settings_that_measure_nothing_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        asked(bench.DEFAULT, **changes)


SEGMENT_BY_SEGMENT = """
import sys; sys.path.insert(0, "minitxl/benchmark")
import torch, peers
peers.at_work = lambda system, job: system
size = peers.Size(2, 64, 2, 32, 128, batch=2, seg_len=8, mem_len=16, dropout=0.0)
for name, (build, _, _) in peers.SYSTEMS.items():
    system = build(peers.Job(name, "cached evaluation", size, 1, "cpu", "float32", seed=0))
    ids, memory, parts = torch.randint(205, (2, 24)), system.memory, []
    with torch.inference_mode():
        system.model.eval()
        whole, _ = system.read(ids[:, :16], None, system.memory)
        for tokens in ids.split([8] + [1] * 16, dim=1):
            scores, memory = system.read(tokens, None, memory)
            parts.append(scores)
    print(name, float((torch.cat(parts[:9], dim=1) - whole).abs().max()) < 1e-5)
"""


@pytest.mark.skipif(not PEERS.exists(), reason="the peers are not installed")
def test_the_peers_read_with_memory_what_they_read_at_once():
    done = subprocess.run(
        [PEERS, "-c", SEGMENT_BY_SEGMENT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"{name} True" for name in bench.PEERS]


def result(reference: str = "transformers") -> dict:
    speed = {"median": 2.5, "quartiles": [2.25, 2.75], "range": [2, 3]}
    one = {"median": 1.0, "quartiles": [1.0, 1.0], "range": [1, 1]}
    megabytes = {"median": 1234.0, "quartiles": [1200.0, 1300.0], "range": [1100, 1400]}
    twice = {"median": 2468.0, "quartiles": [2400.0, 2600.0], "range": [2200, 2800]}
    held = {"minitxl": {"megabytes": megabytes}, reference: {"megabytes": twice}}
    systems = {"minitxl": {"speed": speed}, reference: {"speed": one}}
    return {
        "reference": reference,
        "machine": "2 CPU threads",
        "items": [
            {"work": "training", "size": "S", "systems": systems},
            {"work": "generation", "size": "M", "systems": systems},
            {"work": "peak memory", "size": "S", "systems": held},
        ],
    }


def test_the_picture_says_its_numbers_in_words():
    said = draw(result()).alt
    assert said.startswith(
        "minitxl trains 2.50 times as fast as the Hugging Face port, on 2 CPU threads. "
        "training, 4 layers of width 256, speed, Hugging Face port = 1 (higher is better): "
        "minitxl 2.50 (quartiles 2.25 and 2.75), Hugging Face port 1.00 (quartiles 1.00 and 1.00)."
    )
    assert bench_memory(result()).alt == (
        "A training step of minitxl holds 50 % of the RAM of the Hugging Face port, on 2 CPU threads. "
        "peak RAM, 4 layers of width 256, MB of RAM (lower is better): "
        "minitxl 1,234 (quartiles 1,200 and 1,300), "
        "Hugging Face port 2,468 (quartiles 2,400 and 2,600)."
    )
    assert bench_generation(result()).alt.startswith(
        "minitxl writes 2.50 times as fast as the Hugging Face port, on 2 CPU threads. generation"
    )
    assert "training" not in bench_generation(result()).alt


def test_a_picture_without_minitxl_says_what_was_raced():
    other = result()
    other["items"][2]["systems"]["vanilla"] = other["items"][2]["systems"].pop("minitxl")
    assert bench_memory(other).alt.startswith("Peak memory, system by system, on 2 CPU threads. peak RAM, ")


def test_the_picture_shows_every_item_at_its_measured_values():
    (training,), (memory,) = draw(result()).figure.axes, bench_memory(result()).figure.axes
    whisker, mark = training.lines[:2]
    assert list(whisker.get_xdata()) == [2.25, 2.75]
    assert list(mark.get_xdata()) == [2.5]
    assert [text.get_text() for text in training.texts] == ["2.50", "1.00"]
    assert memory.get_title(loc="left") == "peak RAM,\n4 layers of width 256"
    assert list(memory.lines[1].get_xdata()) == [1234.0]
