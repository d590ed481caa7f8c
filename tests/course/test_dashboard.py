"""A run that is watched is the run that is not; it stops, goes on, and says what went wrong."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from minitxl.analysis import context_length
from minitxl.config import ModelConfig
from minitxl.course import dashboard, widgets
from minitxl.course.dashboard import Dashboard
from minitxl.data.batching import ContiguousBatches
from minitxl.training import loop
from minitxl.training.config import TrainConfig
from minitxl.training.step import train_step

MODEL = ModelConfig(11, n_layer=2, d_model=8, n_head=2, d_head=4, d_inner=16, dropout=0.1)
SETTINGS = TrainConfig(
    seg_len=4, mem_len=4, batch=3, steps=10, warmup=2, validate_every=5, validate_tokens=30
)
TEXT = torch.randint(11, (600,), generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def in_words(monkeypatch):
    """Show each picture as its alternative text: to draw it takes longer than all else here."""
    monkeypatch.setattr(dashboard, "image", lambda picture: picture.alt)


@pytest.fixture
def drawn(in_words, monkeypatch):
    """Show pictures as users see them."""
    monkeypatch.setattr(dashboard, "image", widgets.image)


def watched(every: int = 4, **change) -> Dashboard:
    settings = replace(SETTINGS, **change)
    segments = ContiguousBatches(TEXT, batch=settings.batch, seg_len=settings.seg_len)
    return Dashboard(loop.start(MODEL, settings), segments, TEXT, every=every)


def when_step(number: int, monkeypatch, what) -> None:
    """Do something while that step is being made."""
    advance = train_step

    def with_something(run, segments):
        if run.step + 1 == number:
            what()
        return advance(run, segments)

    monkeypatch.setattr(loop, "train_step", with_something)


def assert_as_if_unwatched(run) -> None:
    alone = loop.start(MODEL, run.settings)
    for _ in loop.train_steps(alone, ContiguousBatches(TEXT, batch=3, seg_len=4), TEXT):
        pass
    for one, other in zip(run.model.parameters(), alone.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(run.memory, alone.memory)
    assert run.model.training


def test_it_redraws_and_leaves_the_weights_of_a_run_that_nobody_watched(drawn):
    board = watched()
    before = board.image.value
    assert board.data["training"]["step"] == []
    board.start()
    board.wait()
    assert board.data["training"]["step"] == board.data["cost"]["step"] == [4, 8, 10]
    assert board.data["validation"]["step"] == [5, 10]
    assert board.image.value != before
    assert f'alt="{board.drawn.alt}"' in board.image.value
    assert board.bar.value == 10
    assert board.words.value == "done"
    assert board.button.disabled
    assert_as_if_unwatched(board.run)


def test_the_pictures_curves_are_the_data():
    board = watched()
    board.start()
    board.wait()
    loss, attention, reach, cost = board.drawn.figure.axes
    assert [list(line.get_ydata()) for line in loss.lines] == [
        board.data["training"]["bits"],
        board.data["validation"]["bits"],
    ]
    assert [list(line.get_ydata()) for line in attention.lines] == board.data["attention"]["layers"]
    assert [bar.get_height() for bar in reach.patches] == [
        band["mean"] for band in board.data["reach"]["bands"]
    ]
    assert list(cost.lines[0].get_ydata()) == board.data["cost"]["microseconds"]
    assert "120 tokens so far" in board.drawn.alt


def test_a_click_stops_after_the_step_and_another_goes_on_to_the_same_weights(monkeypatch):
    board = watched()
    with monkeypatch.context() as patched:
        when_step(3, patched, board.button.click)
        board.start()
        assert board.button.description == "Stop"
        board.wait()
    assert (board.run.step, board.running, board.button.description) == (3, False, "Go on")
    assert board.words.value == "stopped after 3 of 10 steps"
    assert board.data["step"] == 3
    board.button.click()
    assert board.words.value == ""
    board.wait()
    assert board.run.step == 10
    assert_as_if_unwatched(board.run)


def test_stop_returns_once_the_step_is_done():
    board = watched(steps=1000)
    board.start()
    board.stop()
    stopped = board.run.step
    assert not board.running
    assert 1 <= stopped < 1000
    assert board.data["step"] == stopped


def test_what_goes_wrong_is_shown_and_raised_and_the_run_can_go_on(monkeypatch):
    def fail():
        raise ValueError("the <text> is gone")

    board = watched()
    with monkeypatch.context() as patched:
        when_step(4, patched, fail)
        board.start()
        with pytest.raises(ValueError, match="the <text> is gone"):
            board.wait()
    assert board.words.value == "<b>ValueError: the &lt;text&gt; is gone</b>"
    assert board.run.step == 3
    board.start()
    board.wait()
    assert_as_if_unwatched(board.run)


def test_an_interruption_stops_the_training_and_is_passed_on(monkeypatch):
    board = watched(steps=1000)
    board.start()
    join, calls = board._thread.join, []

    def interrupted():
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        join()

    monkeypatch.setattr(board._thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        board.wait()
    assert not board.running
    assert board.run.step < 1000


def run_in_own_loop(coroutine):
    """asyncio.run in a thread of its own: a browser's test may have left a running loop in this one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def test_who_awaits_it_lets_others_work_until_it_is_done_or_stopped():
    board = watched(steps=1000)
    order = []

    async def click():
        order.append("click")
        board.button.click()

    async def cell():
        board.start()
        clicking = asyncio.create_task(click())
        await board.finished()
        order.append("finished")
        await clicking

    run_in_own_loop(cell())
    assert order == ["click", "finished"]
    assert not board.running
    assert 1 <= board.run.step < 1000


def test_who_awaits_it_is_told_what_went_wrong_and_stops_it_by_an_interruption(monkeypatch):
    def fail():
        raise ValueError("the text is gone")

    board = watched()
    with monkeypatch.context() as patched:
        when_step(2, patched, fail)
        board.start()
        with pytest.raises(ValueError, match="the text is gone"):
            run_in_own_loop(board.finished())

    async def cell():
        awaited = asyncio.create_task(board.finished())
        await asyncio.sleep(0)
        awaited.cancel()
        await awaited

    board = watched(steps=1000)
    board.start()
    with pytest.raises(asyncio.CancelledError):
        run_in_own_loop(cell())
    assert not board.running
    assert board.run.step < 1000


def test_a_second_start_changes_nothing(monkeypatch):
    board = watched()
    threads = []
    with monkeypatch.context() as patched:
        when_step(2, patched, lambda: (board.start(), threads.append(board._thread)))
        board.start()
        board.wait()
    assert threads == [board._thread]
    assert_as_if_unwatched(board.run)


def test_without_a_kernel_it_is_its_picture():
    board = watched()
    data, metadata = board._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG")
    assert data["text/plain"] == metadata["image/png"]["alt"] == board.drawn.alt
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == board.box.model_id


@pytest.mark.parametrize(("mem_len", "window"), [(4, None), (6, None), (6, 3), (0, None)])
def test_attention_by_distance_is_the_mean_over_the_queries_that_see_so_far(mem_len, window):
    board = watched(mem_len=mem_len, window=window)
    model, settings = board.run.model, board._memory
    weights = dashboard._weights(model, board._probe, settings)
    layer, _, _, query, key = weights.shape
    found = board.data["attention"]["layers"]
    for distance in range(len(found[0])):
        queries = [i for i in range(query) if key - query + i - distance >= 0]
        for number in range(layer):
            picked = [weights[number, :, :, i, key - query + i - distance].mean() for i in queries]
            assert found[number][distance] == pytest.approx(torch.stack(picked).mean().item(), abs=1e-6)
    share = weights[..., :mem_len].sum(-1).mean().item() if mem_len else 0
    assert board.data["attention"]["memory_share"] == pytest.approx(share, abs=1e-6)
    assert model.training


def test_learned_reach_is_the_youngest_age_of_the_oldest_band_whose_hiding_costs(monkeypatch):
    board = watched(mem_len=12)
    bands = board.data["reach"]["bands"]
    assert [band["ages"] for band in bands] == [[1, 1], [2, 3], [4, 6], [7, 12]]
    changes = context_length.memory_changes(
        board.run.model, board._probe, board._memory, ages=(2, 3), how="hide", batch=32
    )
    assert bands[1]["mean"] == pytest.approx(changes.mean().item() / torch.tensor(2.0).log().item(), abs=1e-6)
    lows = iter([0.1, 0.003, 0.001, -0.3])
    monkeypatch.setattr(
        dashboard, "mean_change", lambda changes: context_length.Interval(0.0, next(lows), 1.0)
    )
    assert dashboard.learned_reach(board.run.model, board._probe, board._memory)["tokens"] == 2


@pytest.mark.parametrize(
    ("cost", "title"),
    [
        (0.0, "Learned reach: none shown"),
        (0.1, "Learned reach: at least 7 tokens into memory"),
    ],
)
def test_the_panel_says_that_learned_reach_is_a_lower_bound_and_by_which_rule(monkeypatch, cost, title):
    monkeypatch.setattr(dashboard, "mean_change", lambda changes: context_length.Interval(cost, cost, cost))
    board = watched(mem_len=12)
    reach = board.drawn.figure.axes[2]
    (rule,) = (line for line in reach.lines if line.get_label().startswith("filled"))
    assert reach.get_title(loc="left") == title
    assert set(rule.get_ydata()) == {dashboard.WORTH}
    assert f"{title} ({rule.get_label()})" in board.drawn.alt


def test_a_run_without_memory_has_no_reach_into_it():
    board = watched(mem_len=0)
    board.start()
    board.wait()
    assert board.data["reach"] == {"bands": [], "tokens": 0, "worth": dashboard.WORTH}
    assert "no memory, 0 tokens" in board.drawn.alt
    assert board.run.step == 10


def test_what_it_is_given_is_checked():
    segments = ContiguousBatches(TEXT, batch=3, seg_len=4)
    with pytest.raises(ValueError, match="every must be 1 step or more, got 0"):
        Dashboard(loop.start(MODEL, SETTINGS), segments, TEXT, every=0)
    with pytest.raises(ValueError, match="must hold"):
        Dashboard(loop.start(MODEL, SETTINGS), segments, TEXT[:40])


def test_a_training_of_the_readers_own_is_drawn_and_stopped_like_the_packages():
    steps = []

    def mine(run, segments, valid):
        for record in loop.train_steps(run, segments, valid):
            steps.append(record.step)
            yield record

    segments = ContiguousBatches(TEXT, batch=SETTINGS.batch, seg_len=SETTINGS.seg_len)
    board = Dashboard(loop.start(MODEL, SETTINGS), segments, TEXT, every=4, train=mine)
    board.start()
    board.wait()
    assert steps == list(range(1, 11))
    assert_as_if_unwatched(board.run)
