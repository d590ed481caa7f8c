import torch
from models import small_model

from minitxl.data import corpora
from minitxl.experiments import generation_cost as experiment
from minitxl.experiments.conclusions import holding
from minitxl.experiments.shared.runner import compute
from minitxl.fast import kv_cache
from minitxl.figures import generation_cost as draw
from minitxl.inference import generation

CORPUS = corpora.from_bytes("no", b"text matters")
TOY = {"mem_len": 8, "length": 48, "block": 4, "anew": [4, 32], "passes": 2}
SIZE = {"n_layer": 2, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}


def toy() -> dict:
    settings = experiment.settings("quick", CORPUS)
    return settings | TOY | {"model": settings["model"] | SIZE}


def test_generation_cost_runs_end_to_end_at_toy_size():
    settings = toy()
    values = compute(experiment.parts(settings, CORPUS, seeds=[0], device="cpu"))
    data = experiment.collect(settings, CORPUS, values)
    assert [block["length"] for block in data["kept"]] == list(range(4, 49, 4))
    assert all(block["milliseconds"]["median"] > 0 for block in data["kept"])
    assert [row["length"] for row in data["anew"]] == [4, 32]
    first, last = (values["kept, pass 1"][index]["seconds"] for index in (2, -1))
    ratios = [last / first, values["kept, pass 2"][-1]["seconds"] / values["kept, pass 2"][2]["seconds"]]
    assert min(ratios) <= data["last_over_full"]["median"] <= max(ratios)
    assert holding("generation_cost", data)["what is kept stops growing once the memory is full"]
    words = draw(data).alt
    assert f"{data['kept'][-1]['milliseconds']['median']:.1f} up to 48" in words


def test_what_is_timed_is_what_generation_does(monkeypatch):
    """The same calls of decoding, token by token, as ``generation.draw_tokens`` makes."""
    model, calls = small_model(attention="xl"), []
    step = kv_cache.step

    def noted(model, tokens, cache, **how):
        calls.append((tuple(tokens.shape), cache.mem_len, cache.window, cache.end - cache.begin))
        return step(model, tokens, cache, **how)

    monkeypatch.setattr(kv_cache, "step", noted)
    text = torch.tensor([1, 2, 3])
    settings = TOY | {"length": 12}
    experiment.kept(settings, model, text, lambda *_: None)
    timed = list(calls)
    calls.clear()
    generation.sample(model, [text[:1]], length=13, mem_len=8)
    assert timed == calls[:12]
