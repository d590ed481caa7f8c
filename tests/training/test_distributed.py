"""Several processes on the CPU, as torchrun starts them, by gloo: the numbers are those of one."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
import torch
from ranks_at_work import CASES, SETTINGS, all_outcomes, write_outcomes
from support.children import context

from minitxl.__main__ import main
from minitxl.config import ModelConfig
from minitxl.training import distributed, loop, metrics_log, run_folder, saved_run

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
AT_ONCE = {"PYTHONUNBUFFERED": "1"}
"""What a killed process has printed is not lost."""
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run_as_rank(variables, work, argument):
    os.environ.update(variables)
    work(argument)


def run_ranks(count, work, argument):
    """Do the work in so many processes, with the variables that torchrun sets: they need not import torch.

    As with torchrun, the store where they meet is this process's, so that its port is free when they come.
    """
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": store.port}
    shared |= {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": True}
    shared |= {"TORCHELASTIC_RUN_ID": "test"}
    ranks = [shared | {"RANK": rank, "LOCAL_RANK": rank} for rank in range(count)]
    each = [{name: str(value) for name, value in variables.items()} for variables in ranks]
    processes = [context().Process(target=run_as_rank, args=(one, work, argument)) for one in each]
    for process in processes:
        process.start()
    deadline = time.monotonic() + 120
    for process in processes:
        process.join(max(0, deadline - time.monotonic()))
        process.kill()
    assert [process.exitcode for process in processes] == [0] * count


@pytest.fixture(scope="module")
def alone():
    return all_outcomes()


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """What each of four processes has found."""
    folder = tmp_path_factory.mktemp("ranks")
    run_ranks(4, write_outcomes, folder)
    return [torch.load(folder / f"{rank}.pt") for rank in range(4)]


@pytest.mark.parametrize("case", CASES)
def test_processes_share_the_batch_and_get_the_losses_and_weights_of_one(case, alone, four):
    expected = alone[case]
    for rank, found in enumerate(each[case] for each in four):
        for name in ("bits", "norms", "valid", "valid at"):
            assert found[name] == pytest.approx(expected[name], rel=0, abs=1e-10), (rank, name)
        torch.testing.assert_close(found["weights"], expected["weights"], rtol=0, atol=1e-10)
        torch.testing.assert_close(found["memory"], expected["memory"], rtol=0, atol=1e-10)
        assert found["own memory"] == 8 // len(four)
        assert found["tokens"] == expected["tokens"] == [8 * 5] * 9
    for one, other in pairwise(four):
        assert all(torch.equal(one[case]["weights"][n], w) for n, w in other[case]["weights"].items())


def test_the_cases_differ_and_learn(alone):
    losses = [tuple(found["bits"]) for found in alone.values()]
    assert len({bits[-1] for bits in losses}) >= len(CASES) - 3
    assert all(bits[-1] < bits[0] for bits in losses)


def test_taking_the_lanes_in_parts_changes_nothing_but_rounding(alone):
    for whole, parted in (("plain", "in parts"), ("rare words", "rare words in parts")):
        torch.testing.assert_close(alone[whole]["weights"], alone[parted]["weights"], rtol=0, atol=1e-12)


def part_often(folder):
    """Form a group, gather, and part, with a module that outlives the group by a moment."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for number in range(30):
        place = f"file://{folder / str(number)}"
        torch.distributed.init_process_group("gloo", init_method=place, rank=rank, world_size=size)
        module = distributed.parallel(torch.nn.Linear(2, 2))
        module(torch.ones(1, 2)).sum().backward()
        for _ in range(3):
            assert distributed.gathered(torch.ones(1), dim=0).shape == (size,)
        torch.distributed.destroy_process_group()
        del module


def test_ranks_that_part_at_once_after_they_have_gathered_end(tmp_path):
    run_ranks(2, part_often, tmp_path)


def test_without_torchrun_there_is_one_rank():
    assert (distributed.size(), distributed.rank(), distributed.share(6)) == (1, 0, slice(0, 6))
    with distributed.joined("cpu") as device:
        assert device == torch.device("cpu")
        assert distributed.summed([1.5]) == [1.5]


def test_a_batch_that_can_not_be_shared_is_refused():
    sentence = r"batch must be a multiple of processes · accumulate = 1 · 3, got 8"
    with pytest.raises(ValueError, match=sentence):
        loop.start(ModelConfig(), SETTINGS, accumulate=3)


def training(folder, text):
    shape = "--n-layer 1 --d-model 16 --batch 4 --seg-len 8 --mem-len 8 --steps 150 --checkpoint-every 5"
    return ["train", str(folder), "--text", str(text), *shape.split()]


def command(folder, text, processes):
    return [*TORCHRUN, "--nproc-per-node", str(processes), "-m", "minitxl", *training(folder, text)]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_bytes(bytes(range(256)) * 20)
    return path


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory):
    """The newest checkpoint of a training by two processes that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_ranks(2, main, training(folder, text))
    return run_folder.newest(folder).read_bytes()


def two_machines(folder, text):
    """Start a training on two machines, which are both this one, a process each; return their torchruns."""
    rendezvous = f"--nnodes 2 --rdzv-id test --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:{free_port()}"
    torchrun = [*TORCHRUN[:-1], *rendezvous.split(), "--local-addr", "127.0.0.1", "--nproc-per-node", "1"]
    return [
        subprocess.Popen(
            [*torchrun, str(Path(__file__).with_name("impatient.py")), *training(folder, text)],
            env=ONE_THREAD | AT_ONCE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        for _ in range(2)
    ]


def said(process):
    return process.communicate(timeout=120)[0]


def killed(process):
    """Kill all processes of a torchrun, and the torchrun; return what they had said."""
    for child in psutil.Process(process.pid).children(recursive=True):
        child.kill()
    process.kill()
    return said(process)


def wait_for_a_checkpoint(folder, after=0):
    """Return once there is a checkpoint of a later step than this one."""
    deadline = time.monotonic() + 120
    while (newest := run_folder.newest(folder)) is None or newest <= run_folder.checkpoint(folder, after):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def reached(folder):
    """Return the step of the newest checkpoint: the training was stopped, and not before its first steps."""
    step = saved_run.resume(run_folder.newest(folder)).step
    assert 0 < step < 150
    return step


def test_a_training_goes_on_to_the_same_bytes_when_a_process_and_then_a_machine_was_killed(
    text, whole, tmp_path
):
    folder = tmp_path / "run"
    process = subprocess.Popen(
        command(folder, text, 2), env=ONE_THREAD, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wait_for_a_checkpoint(folder)
    victim = max(psutil.Process(process.pid).children(), key=lambda child: child.pid)
    victim.send_signal(signal.SIGKILL)
    said(process)
    assert process.returncode != 0
    first = reached(folder)

    staying, other = two_machines(folder, text)
    wait_for_a_checkpoint(folder, after=first)
    both = killed(other) + said(staying)
    assert staying.returncode != 0
    assert both.count(f"at step {first} of 150") == 1
    assert reached(folder) > first

    run_ranks(2, main, training(folder, text))
    assert run_folder.newest(folder).read_bytes() == whole
    lines = (folder / metrics_log.LOG).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(10, 151, 10))
