"""Wrong solutions of assignment 6, by words of the message that each must get, as changes of its cell."""

CHOOSE = "argmax(dim=-1).masked_fill(ended, stop)"
ENDS = "if ended.all() or len(written) == length:"
LAST = "log_probs[:, -1]"
MEMORY = "memory = known[max(0, len(known) - mem_len) :]"
MEAN = "losses.mean().item()"
READ = "log_probs, cache = step(tokens, cache)"
SPLIT = "zip(text[:-1].split(seg_len), text[1:].split(seg_len), strict=True)"
TOKEN = 'step(rearrange(token, "batch -> batch 1"), cache)'
TEXT = "torch.cat([prompt, torch.stack(written, dim=1)], dim=1)"
WRONG = {
    # sliding
    "these are operations: a multiplication": ("sliding", "windows * n_layer", "2 * windows * n_layer"),
    "the last window is missing": ("sliding", "-(-(time - tokens) // stride)", "(time - tokens) // stride"),
    "the first window is missing": (
        "sliding",
        "windows = 1 + -(-(time - tokens) // stride)",
        "windows = max(1, -(-(time - tokens) // stride))",
    ),
    "too many windows": ("sliding", "1 + -(-(time - tokens) // stride)", "-(-time // stride)"),
    "the stride is not used": ("sliding", "-(-(time - tokens) // stride)", "(time - tokens)"),
    "pairs that the causal mask hides are counted: token i": (
        "sliding",
        "tokens * (tokens + 1) // 2",
        "tokens**2",
    ),
    "the first has one pair": ("sliding", "(tokens + 1)", "(tokens - 1)"),
    "the score, and the mean of the values": ("sliding", "pairs * 2 * d_model", "pairs * d_model"),
    "two products, not three": ("sliding", "pairs * 2", "pairs * 3"),
    "there are four matrices": ("sliding", "4 * d_model**2", "3 * d_model**2"),
    "the feed-forward layer has two matrices": ("sliding", "2 * d_model * d_inner", "d_model * d_inner"),
    "and the window computes all of them anew": ("sliding", "windows * n_layer * one", "windows * one"),
    "and not only those it scores": (
        "sliding",
        ("one = tokens * (4 * d_model**2 + 2 * d_model * d_inner) + pairs", "one = pairs"),
        (
            "return windows * n_layer * one",
            "one = windows * one + time * (4 * d_model**2 + 2 * d_model * d_inner)\n    return n_layer * one",
        ),
    ),
    "there is nothing else to read": (
        "sliding",
        ("min(attention_len, time)", "attention_len"),
        ("-(-(time - tokens)", "-(-max(0, time - tokens)"),
    ),
    "the last window is cut short": (
        "sliding",
        ("windows = ", "starts = range(0, max(1, time - tokens + stride), stride)\n    windows = "),
        (
            "return windows * n_layer * one",
            "sizes = [min(attention_len, time - start) for start in starts]\n"
            "    token = 4 * d_model**2 + 2 * d_model * d_inner\n"
            "    return n_layer * sum(n * token + n * (n + 1) * d_model for n in sizes)",
        ),
    ),
    "rounded to the nearest": (
        "sliding",
        "-(-(time - tokens) // stride)",
        "round((time - tokens) / stride)",
    ),
    # cached
    "counted once, without its addition": ("cached", "return n_layer", "return 2 * n_layer"),
    "memory moves with each token here": (
        "cached",
        "    token = ",
        "    pairs = sum(min(read, mem_len) + 1 for read in range(time))\n    token = ",
    ),
    "all M + L distances count": ("cached", "(mem_len + seg_len)", "min(time, mem_len + seg_len)"),
    "memory is full from the start": ("cached", "min(mem_len, read)", "mem_len"),
    "the last segment alone here": ("cached", "min(mem_len, read)", "min(mem_len, seg_len, read)"),
    "grows without end here": ("cached", "min(mem_len, read)", "read"),
    "the keys of memory are missing": ("cached", "tokens * min(mem_len, read) + ", ""),
    "the last segment is counted as full": (
        "cached",
        ("min(seg_len, time - read)", "seg_len"),
        ("time * token", "-(-time // seg_len) * seg_len * token"),
    ),
    "the last, shorter segment is missing": (
        "cached",
        "    pairs = 0",
        "    time -= time % seg_len\n    pairs = 0",
    ),
    "within a segment, token i": ("cached", "tokens * (tokens + 1) // 2", "tokens**2"),
    "add its own pair": ("cached", "(tokens + 1)", "(tokens - 1)"),
    "with the key, with the distance": ("cached", "pairs * 3", "pairs * 2"),
    "take u and v by addition": ("cached", "pairs * 3", "pairs * 5"),
    "its keys and values are kept": (
        "cached",
        ("    pairs = 0", "    again, pairs = 0, 0"),
        ("        pairs +=", "        again += min(mem_len, read) * 2 * d_model**2\n        pairs +="),
        ("+ distances)", "+ distances + again)"),
    ),
    "memory is not a longer segment": (
        "cached",
        ("    pairs = 0", "    computed, pairs = 0, 0"),
        ("        pairs +=", "        computed += min(mem_len, read) + tokens\n        pairs +="),
        ("time * token", "computed * token"),
    ),
    "and not in every segment": ("cached", "+ distances)", "+ distances * len(range(0, time, seg_len)))"),
    "there are M + L distances": ("cached", "(mem_len + seg_len)", "(mem_len + seg_len - 1)"),
    "each layer has a W_kR of its own": (
        "cached",
        ("n_layer * (time", "distances + n_layer * (time"),
        (" * d_model + distances)", " * d_model)"),
    ),
    "it has only the tokens that are left": ("cached", "min(seg_len, time - read)", "seg_len"),
    "its tokens are scored too": (
        "cached",
        "range(0, time, seg_len)",
        "range(0, time - time % seg_len, seg_len)",
    ),
    "W_kR is missing": ("cached", " + distances)", ")"),
    # score
    "memory is never used": ("score", MEMORY, "memory = None"),
    "from one text into the next": (
        "score",
        "    for text in texts:\n        memory = None",
        "    memory = None\n    for text in texts:",
    ),
    "memory holds the last segment alone": ("score", "torch.cat([memory, states])", "states"),
    "[-0:] selects all": ("score", MEMORY, "memory = known[-mem_len:]"),
    "memory is one state short": ("score", "len(known) - mem_len", "len(known) - mem_len + 1"),
    "seg_len is ignored": ("score", SPLIT, "[(text[:-1], text[1:])]"),
    "bits are a sum here": ("score", MEAN, "losses.sum().item()"),
    "memory grows without end": ("score", MEMORY, "memory = known"),
    "the oldest states are kept": ("score", MEMORY, "memory = known[:mem_len]"),
    "the past comes first": ("score", "[memory, states]", "[states, memory]"),
    "each segment's first token is never scored": (
        "score",
        SPLIT,
        "((piece[:-1], piece[1:]) for piece in text.split(seg_len) if len(piece) > 1)",
    ),
    "scored by its own prediction": ("score", "text[1:].split", "text[:-1].split"),
    "the last, shorter segment of a text": (
        "score",
        "            with torch",
        "            if len(tokens) < seg_len:\n                continue\n            with torch",
    ),
    "an empty segment is read": (
        "score",
        SPLIT,
        "[(text[:-1][a : a + seg_len], text[a + 1 :][:seg_len]) for a in range(0, len(text), seg_len)]",
    ),
    "a last segment of one input is left out": (
        "score",
        SPLIT,
        f"((tokens, targets) for tokens, targets in {SPLIT} if len(tokens) > 1)",
    ),
    "a text of seg_len tokens or fewer is left out": (
        "score",
        "in texts:",
        "in [one for one in texts if len(one) > seg_len]:",
    ),
    "the texts are read as one": ("score", "in texts:", "in [torch.cat(texts)]:"),
    "a graph is kept": ("score", "torch.no_grad()", "torch.enable_grad()"),
    "a mean of the segments' means": (
        "score",
        "    losses = torch.cat(losses)\n    return {",
        "    means = [one.mean().item() for one in losses]\n    losses = torch.cat(losses)\n"
        '    return {"losses": losses, "bits": sum(means) / len(means) / log(2)}\n    return {',
    ),
    "a mean of the texts' means": (
        "score",
        MEAN,
        "sum(one.mean().item() for one in losses.split([len(text) - 1 for text in texts])) / len(texts)",
    ),
    "the last token of a text is read too": (
        "score",
        (f"{SPLIT}", "zip(text.split(seg_len), [*text[1:].split(seg_len), text[:0]])"),
        ("torch.arange(len(tokens))", "torch.arange(len(targets))"),
    ),
    "these are nats: bits": ("score", " / log(2)", ""),
    "the losses are bits here": (
        "score",
        ("losses = torch.cat(losses)", "losses = torch.cat(losses) / log(2)"),
        (" / log(2)}", "}"),
    ),
    "nats are multiplied by log 2": ("score", "/ log(2)", "* log(2)"),
    # likely
    "temperature was changed in place": (
        "likely",
        ("    T = ", "    temperature[greedy] = 1.0\n    T = "),
        ("temperature.masked_fill(greedy, 1.0)", "temperature"),
    ),
    "multiplied by temperature": ("likely", "ranked / T", "ranked * T"),
    "temperature changes nothing": ("likely", "(ranked / T)", "(ranked.softmax(dim=-1) / T).log()"),
    "temperature comes last here": (
        "likely",
        ("ranked / T", "ranked"),
        (
            "    return",
            "    kept = kept ** (1 / T)\n    kept = kept / kept.sum(dim=-1, keepdim=True)\n    return",
        ),
    ),
    "temperature 0 gives NaN": (
        "likely",
        ("temperature.masked_fill(greedy, 1.0)", "temperature"),
        ("top_k.masked_fill(greedy, 1)", "top_k"),
    ),
    "at temperature 0 equals share": (
        "likely",
        ("top_k.masked_fill(greedy, 1)", "top_k"),
        ("temperature.masked_fill(greedy, 1.0)", "temperature.clamp(min=1e-9)"),
    ),
    "equal scores all stay": (
        "likely",
        "rank >= k",
        "ranked < ranked.gather(-1, k.clamp(max=len(rank)) - 1)",
    ),
    "top k does nothing": ("likely", "rank >= k", "(rank >= k) & (k == 1)"),
    "top p does nothing": ("likely", "before >= p", "before > 1"),
    "top p counts all tokens": (
        "likely",
        ('.masked_fill(rank >= k, float("-inf"))', ""),
        ("before >= p,", "(before >= p) | (rank >= k),"),
    ),
    "the token that crosses top p": ("likely", "probs.cumsum(dim=-1) - probs", "probs.cumsum(dim=-1)"),
    "it stays where they have less": ("likely", "before >= p", "before > p"),
    "not the probability of each": ("likely", "before >= p", "probs < 1 - p"),
    "what stays must sum to 1": ("likely", "    kept = kept / kept.sum(dim=-1, keepdim=True)\n", ""),
    "stand in sorted order": ("likely", "torch.zeros_like(kept).scatter(-1, order, kept)", "kept"),
    "moves them a second time": (
        "likely",
        "torch.zeros_like(kept).scatter(-1, order, kept)",
        "kept.gather(-1, order)",
    ),
    "a temperature divides a column": (
        "likely",
        ("scores.sort", "(scores / temperature.masked_fill(greedy, 1.0)).sort"),
        ("ranked / T", "ranked"),
    ),
    "the settings act on columns": (
        "likely",
        ('"batch -> batch 1"', '"batch -> batch"'),
        ("scores.sort", "(scores / T).sort"),
        ("ranked / T", "ranked"),
    ),
    "all rows have the first row's": (
        "likely",
        "    greedy =",
        "    temperature, top_k, top_p = (\n"
        "        one[:1].expand(len(scores)) for one in (temperature, top_k, top_p)\n    )\n    greedy =",
    ),
    # write
    "the cache holds the whole text": ("write", TOKEN, f"step({TEXT}, cache)"),
    "reads on where all rows end with their first token": (
        "write",
        ENDS,
        "if (ended.all() and len(written) > 1) or len(written) == length:",
    ),
    "each token is read twice": ("write", TOKEN, f"step({TEXT}[:, -2:], cache)"),
    "the prompt's last token is read twice": (
        "write",
        "    written, ended",
        "    log_probs, cache = step(prompt[:, -1:], cache)\n    written, ended",
    ),
    "after the first place": ("write", LAST, "log_probs[:, 0]"),
    "the cache is lost": ("write", TOKEN, TOKEN.replace("cache", "None")),
    "what it was after the prompt": ("write", f"log_probs, cache = {TOKEN}", f"log_probs, _ = {TOKEN}"),
    "without the pieces before it": ("write", READ, READ.replace("tokens, cache", "tokens, None")),
    "the prompt's last piece is lost": (
        "write",
        "in prompt.split(piece, dim=1):",
        "in prompt[:, : prompt.shape[1] // piece * piece].split(piece, dim=1):",
    ),
    "the shorter piece of the prompt is read first": (
        "write",
        "    for tokens in prompt.split(piece, dim=1):",
        "    first = prompt.shape[1] % piece or piece\n"
        "    for tokens in (prompt[:, :first], *prompt[:, first:].split(piece, dim=1)):",
    ),
    "the prompt is read at once": ("write", "prompt.split(piece, dim=1)", "[prompt]"),
    "the prompt is read token by token": ("write", "split(piece,", "split(1,"),
    "one call too many": (
        "write",
        (f"        log_probs, cache = {TOKEN}", ""),
        (f"        {ENDS}", f"        log_probs, cache = {TOKEN}\n        {ENDS}"),
    ),
    "it goes on when all rows": ("write", ENDS, "if len(written) == length:"),
    "it ends with the first row": ("write", "ended.all()", "ended.any()"),
    "a row writes on after its stop": ("write", CHOOSE, "argmax(dim=-1)"),
    "stop is never looked at": (
        "write",
        (CHOOSE, "argmax(dim=-1)"),
        (ENDS, "if len(written) == length:"),
    ),
    "the prompt stands in the result": ("write", "return torch.stack(written, dim=1)", f"return {TEXT}"),
    "which writes nothing but stop": (
        "write",
        "torch.zeros(len(prompt), dtype=torch.bool)",
        "(prompt == stop).any(dim=1)",
    ),
    "ends a row here after its first token": (
        "write",
        "ended | (token",
        "(prompt == stop).any(dim=1) | ended | (token",
    ),
    # numbers
    "keys and values, so two": ("numbers", '2 * mine["n_layer"]', 'mine["n_layer"]'),
    "every layer keeps its own": ("numbers", '2 * mine["n_layer"]', "2"),
    "for one text of the batch": ("numbers", ' * mine["batch"]', ""),
    "one window more": ("numbers", "1 + -(-", "-(-"),
    "only the others move by the stride": (
        "numbers",
        '1 + -(-(mine["time"] - mine["attention_len"])',
        '-(-mine["time"]',
    ),
    "this is stride 1": ("numbers", ' // mine["stride"]', ""),
    "what a cache reads": ("numbers", 'windows * mine["attention_len"]', 'mine["time"]'),
    "this is per character": ("numbers", '(mine["bits"] * mine["characters"])', 'mine["bits"]'),
    "these are the bits of a word": ("numbers", "2 ** (", "("),
    "their perplexities are multiplied": (
        "numbers",
        '2 ** (mine["bits"] * mine["characters"])',
        '2 ** mine["bits"] * mine["characters"]',
    ),
}
