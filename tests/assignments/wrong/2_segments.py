"""Wrong solutions of assignment 2, by words of the message that each must get, as changes of its cell."""

WINDOW = "end + stride if end else attention_len"
OLD = "first + stride - attention_len if first else 0"
WRONG = {
    # lanes
    "dealt out to the lanes in turn": (
        "lanes",
        "ids.tensor_split(batch)",
        "[ids[b::batch] for b in range(batch)]",
    ),
    "the rest that fills no column is left out": (
        "lanes",
        ("lane = -(-(len(stream) - 1) // batch)", "lane = (len(stream) - 1) // batch"),
        ("ids.tensor_split", "ids[: batch * lane].tensor_split"),
    ),
    "all that is missing is missing in the last lane": (
        "lanes",
        "ids.tensor_split(batch)",
        "[ids[b * lane : (b + 1) * lane] for b in range(batch)]",
    ),
    "the longer lanes come last": (
        "lanes",
        "ids.tensor_split(batch)",
        "[piece.flip(0) for piece in reversed(ids.flip(0).tensor_split(batch))]",
    ),
    "a target is lost at each end of a lane": (
        "lanes",
        "def into_lanes(stream, batch):\n"
        "    pieces = stream.tensor_split(batch)\n"
        "    pad = lambda rows: torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)\n"
        "    real = pad([torch.ones(len(piece) - 1, dtype=torch.bool) for piece in pieces])\n"
        "    return pad([piece[:-1] for piece in pieces]), pad([piece[1:] for piece in pieces]), real",
    ),
    "a lane's last target is its own first token": (
        "lanes",
        (
            "def padded(ids):\n        pieces = ids.tensor_split(batch)",
            "def padded(ids, ahead=0):\n        pieces = [i.roll(-ahead) for i in ids.tensor_split(batch)]",
        ),
        ("padded(stream[1:])", "padded(stream[:-1], 1)"),
    ),
    "the targets are the inputs": ("lanes", "padded(stream[1:])", "padded(stream[:-1])"),
    "shifted the wrong way: they come after the inputs": (
        "lanes",
        "padded(stream[1:])",
        "padded(stream.roll(1)[:-1])",
    ),
    "filled up on the left": (
        "lanes",
        "[piece, piece.new_zeros(lane - len(piece))]",
        "[piece.new_zeros(lane - len(piece)), piece]",
    ),
    "real comes from the lengths": (
        "lanes",
        "padded(torch.ones_like(stream[1:])).bool()",
        "padded(stream[:-1]) != 0",
    ),
    "a token can be 0": ("lanes", "padded(torch.ones_like(stream[1:])).bool()", "padded(stream[1:]) != 0"),
    "real is the wrong way round": (
        "lanes",
        "padded(torch.ones_like(stream[1:])).bool()",
        "~padded(torch.ones_like(stream[1:])).bool()",
    ),
    "real says that all places count": (
        "lanes",
        "padded(torch.ones_like(stream[1:])).bool()",
        "torch.ones(batch, lane, dtype=torch.bool)",
    ),
    # segments
    "the last segment is left out": (
        "segments",
        (
            "inputs.shape[1], seg_len), inputs.shape[1]]",
            "inputs.shape[1], seg_len), inputs.shape[1]]\n    "
            "if (inputs.shape[1] - first) % seg_len:\n        cuts.pop()",
        ),
    ),
    "the beginning is left out": ("segments", "[0, *range(first or seg_len", "[*range(first"),
    "the cuts are not moved": ("segments", "range(first or seg_len", "range(seg_len"),
    "an empty segment stands in front": ("segments", "first or seg_len", "first"),
    "an empty segment stands at the end": (
        "segments",
        "range(first or seg_len, inputs.shape[1],",
        "range(first or seg_len, lanes.shape[1],",
    ),
    "a target is lost at each cut": (
        "segments",
        "def cut_segments(lanes, seg_len, first):\n"
        "    cuts = [0, *range(first or seg_len, lanes.shape[1], seg_len), lanes.shape[1]]\n"
        "    pieces = [lanes[:, a:b] for a, b in pairwise(cuts)]\n"
        "    return [(one[:, :-1], one[:, 1:], torch.arange(one.shape[1] - 1) + 1) for one in pieces]",
    ),
    "each segment is rolled by itself": ("segments", "targets[:, a:b]", "inputs[:, a:b].roll(-1, dims=1)"),
    "the targets are the tokens": ("segments", "lanes[:, 1:]", "lanes[:, :-1]"),
    "shifted the wrong way: they come after the tokens": (
        "segments",
        "lanes[:, 1:]",
        "lanes.roll(1, dims=1)[:, :-1]",
    ),
    "the context is one too small": ("segments", "torch.arange(b - a) + 1", "torch.arange(b - a)"),
    "every target gets seg_len tokens": (
        "segments",
        "torch.arange(b - a) + 1",
        "torch.full([b - a], seg_len)",
    ),
    "the context goes on across the cuts": ("segments", "torch.arange(b - a) + 1", "torch.arange(a, b) + 1"),
    # windows
    "every window scores all its targets, so": ("windows", "(begin, first, end)", "(begin, begin, end)"),
    "the beginning is never scored": (
        "windows",
        "(begin, first, end)",
        "(begin, first if first else max(0, end - stride), end)",
    ),
    "the rest is left out": (
        "windows",
        ("end < n_target", "not plan or end + stride <= n_target"),
    ),
    "the last window is moved back until it is full: it begins at": (
        "windows",
        OLD,
        "max(0, end - attention_len)",
    ),
    "first is still the end of the window before": (
        "windows",
        "plan.append((begin, first, end))",
        "plan.append((begin, end - stride if first else 0, end))",
    ),
    "a window reads only what it scores": ("windows", OLD, "first"),
    "you returned the shape [1, 3], right is": (  # what "Check yourself" shows of a short text, for any text
        "windows",
        "def plan_windows(n_target, attention_len, stride):\n    return [(0, 0, 3)]",
    ),
    "the window grows": ("windows", OLD, "0"),
    "the window ends after the text": ("windows", f"min(n_target, {WINDOW})", WINDOW),
    "the end is one too small": ("windows", "first, end))", "first, end - 1))"),
    "later windows are one token too short: they hold": (
        "windows",
        "first + stride - attention_len",
        "first + stride + 1 - attention_len",
    ),
    "these are isolated segments. Mind the stride": (
        "windows",
        (WINDOW, "end + attention_len"),
        (OLD, "first"),
    ),
    "they cost and score nothing": (
        "windows",
        "def plan_windows(n_target, attention_len, stride):\n"
        "    plan, done = [], 0\n"
        "    for begin in range(0, n_target, stride):\n"
        "        end = min(begin + attention_len, n_target)\n"
        "        plan.append((begin, done, end))\n"
        "        done = end\n"
        "    return plan",
    ),
    # score
    "where windows overlap, the first of them scores": (
        "score",
        ("[0, first - begin :]", "[0]"),
        ("torch.arange(end - first), targets[first:end]", "torch.arange(end - begin), targets[begin:end]"),
    ),
    "but for its last": (
        "score",
        "            logits =",
        "            first = first if first else max(0, end - stride)\n            logits =",
    ),
    "the rest of the text is not scored": (
        "score",
        "end < len(targets)",
        "not losses or end + stride <= len(targets)",
    ),
    "it begins stride after the one before": ("score", OLD, "max(0, end - attention_len)"),
    "the old tokens are missing": ("score", OLD, "first"),
    "each holds attention_len inputs": (
        "score",
        "first + stride - attention_len",
        "first + stride + 1 - attention_len",
    ),
    "the text is read at once": ("score", f"min(len(targets), {WINDOW})", "len(targets)"),
    "the window moves by its whole length": ("score", (WINDOW, "end + attention_len"), (OLD, "first")),
    "the window moves by one token": (
        "score",
        "    inputs, targets = ",
        "    stride = 1\n    inputs, targets = ",
    ),
    "held against that token itself": ("score", "stream[1:]", "stream[:-1]"),
    "log_softmax makes them so": ("score", "logits.log_softmax(dim=-1)", "logits"),
    "these are bits": ("score", "torch.cat(losses)", "torch.cat(losses) / log(2)"),
    "that is the mean": ("score", "torch.cat(losses)", "torch.cat(losses).mean()"),
    "dropout is on": ("score", "    model.eval()\n", ""),
    "the model stays in evaluation mode": ("score", "    model.train(mode)\n", ""),
    "even if it came in evaluation mode": ("score", "model.train(mode)", "model.train()"),
    "the losses carry a graph": ("score", "torch.no_grad()", "torch.enable_grad()"),
    "each window is computed again for every target": (
        "score",
        "            logits = model",
        "            for _ in range(end - first):\n                logits = model",
    ),
    "a later window writes over losses of the one before": (
        "score",
        (
            "mode, losses, end = model.training, [], 0",
            "mode, losses, end = model.training, torch.zeros(len(targets)), 0",
        ),
        ("[0, first - begin :]", "[0]"),
        (
            "losses.append(-log_probs[torch.arange(end - first), targets[first:end]])",
            "losses[begin:end] = -log_probs[torch.arange(end - begin), targets[begin:end]]",
        ),
        ("torch.cat(losses)", "losses"),
    ),
    "it scores these alone": (
        "score",
        "            logits =",
        "            first = end - stride if first else 0\n            logits =",
    ),
    # compare
    "it says that nothing stands there": (
        "compare",
        "def compare(one, at_one, other, at_other, characters):\n"
        "    both = torch.tensor(sorted({*at_one.flatten().tolist()} & {*at_other.flatten().tolist()}))\n"
        "    width = characters[both].sum() * log(2)\n"
        "    two = (one, at_one), (other, at_other)\n"
        "    bits = [ls[torch.isin(at, both)].sum() / width for ls, at in two]\n"
        "    return {'targets': len(both), 'one': bits[0], 'other': bits[1]}",
    ),
    "-1 counts as a target that both score": (
        "compare",
        '"targets": int(both.sum())',
        '"targets": len({*at_one.flatten().tolist()} & {*at_other.flatten().tolist()})',
    ),
    "each is taken over its own targets": (
        "compare",
        (
            "(losses[both].sum() / width / log(2)).item()",
            "(losses.nansum() / characters[~losses.isnan()].sum() / log(2)).item()",
        ),
    ),
    "counts as a loss of 0": (
        "compare",
        ("torch.nan,", "0.0,"),
        ("~(one.isnan() | other.isnan())", "(one != 0) | (other != 0)"),
    ),
    "paired in the order they come in": (
        "compare",
        "def compare(one, at_one, other, at_other, characters):\n"
        "    one, other = one[at_one != -1], other[at_other != -1]\n"
        "    n = min(one.numel(), other.numel())\n"
        "    width = characters[:n].sum().item() * log(2)\n"
        "    found = {name: ls[:n].sum().item() / width for name, ls in [('one', one), ('other', other)]}\n"
        "    return {'targets': n, **found}",
    ),
    "target 0 is left out": (
        "compare",
        ("found[at[at >= 0]] = losses[at >= 0]", "found[at[at > 0]] = losses[at > 0]"),
    ),
    "-1 is a place too": ("compare", ("found[at[at >= 0]] = losses[at >= 0]", "found[at] = losses")),
    "this is per token": ("compare", "losses[both].sum() / width", "losses[both].mean()"),
    "these are nats": ("compare", " / log(2)", ""),
    "multiplied by log 2": ("compare", "/ log(2)", "* log(2)"),
    "a mean of each token's ratio": (
        "compare",
        "losses[both].sum() / width",
        "(losses[both] / characters[both]).mean()",
    ),
    "a mean of the rows' means": (
        "compare",
        "def compare(one, at_one, other, at_other, characters):\n"
        "    shared = set(at_one.flatten().tolist()) & set(at_other.flatten().tolist()) - {-1}\n"
        "    found = {'targets': len(shared)}\n"
        "    for name, losses, at in [('one', one, at_one), ('other', other, at_other)]:\n"
        "        rows = []\n"
        "        for row, of in zip(losses.tolist(), at.tolist()):\n"
        "            kept = [(x, characters[t].item()) for x, t in zip(row, of) if t in shared]\n"
        "            if kept:\n"
        "                rows.append(sum(x for x, _ in kept) / sum(c for _, c in kept) / log(2))\n"
        "        found[name] = sum(rows) / len(rows)\n"
        "    return found",
    ),
    "divided by the characters of the whole text": ("compare", "characters[both].sum()", "characters.sum()"),
    "that is a perplexity": (
        "compare",
        "(losses[both].sum() / width / log(2)).item()",
        "exp(losses[both].sum() / width)",
    ),
    # numbers
    "only the last target of a segment": ("numbers", '(mine["seg_len"] + 1) // 2', 'mine["seg_len"]'),
    "from one token, not from none": ("numbers", '(mine["seg_len"] + 1)', '(mine["seg_len"] - 1)'),
    "this is for one segment": ("numbers", 'mine["segments"] * ', ""),
    "a rest fills no lane": ("numbers", ' + mine["tokens"] % mine["batch"]', ""),
    "in each lane the first token": ("numbers", 'mine["batch"] + mine["tokens"]', 'mine["tokens"]'),
    "the first token of the text": ("numbers", 'mine["batch"] + mine', 'mine["batch"] - 1 + mine'),
    "but it is a target": ("numbers", 'mine["batch"] + mine', '2 * mine["batch"] + mine'),
    "before any move": ("numbers", '(1 + mine["moves"])', 'mine["moves"]'),
    "what a cache does": (
        "numbers",
        '(1 + mine["moves"]) * mine["attention_len"]',
        'mine["attention_len"] + mine["moves"] * mine["stride"]',
    ),
    "a window for each target": (
        "numbers",
        '(1 + mine["moves"])',
        '(mine["attention_len"] + mine["moves"] * mine["stride"])',
    ),
    "so there are fewer windows": (
        "numbers",
        '(1 + mine["moves"])',
        '(mine["attention_len"] // mine["stride"] + mine["moves"])',
    ),
    "the perplexity per character": ("numbers", ' * mine["characters"])', ")"),
    "2 to the power of bits": ("numbers", '2 ** (mine["bits"] *', '(mine["bits"] *'),
    "it is their bits that add up": (
        "numbers",
        '2 ** (mine["bits"] * mine["characters"])',
        '2 ** mine["bits"] * mine["characters"]',
    ),
}
