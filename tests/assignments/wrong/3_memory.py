"""Wrong solutions of assignment 3, by words of the message that each must get, as changes of its cell."""

REMEMBER = "def remember(memory, hidden, mem_len):\n    "
CUT = "[:, max(0, of.shape[1] - mem_len) :]"
KEYS = 'rearrange(context @ W[name], cut, head=n_head) for name in "kv"'
SAME = "text[:, -query:, None] == text[:, None, :]"
SEEN = "same & torch.ones(query, key, dtype=torch.bool).tril(key - query)"
INFINITE = 'float("-inf")'
MASKED = f"(scores / sqrt(q.shape[-1])).masked_fill(~seen, {INFINITE})"
HIDDEN = f"scores.masked_fill(hidden, {INFINITE}).softmax(dim=-1)"
OWN = "(torch.arange(key) >= key - query)"
STREAM = "def read_stream(layers, x, seg_len, mem_len):\n    "
JOINED = "            joined = torch.cat([memory[n], h], dim=1).detach()\n"
LAYER = "            h = layer(h, memory[n])\n"
NEWEST = "joined[:, max(0, joined.shape[1] - mem_len) :]"
IN_TWO = "torch.cat([m[:, -{} :], h[:, -mem_len:]], dim=1)"
BACK = 'rearrange(j[-x.shape[1] :], "query -> query 1") - j'
TEXT = f"    text = begins.cumsum(dim=1)\n    same = {SAME}"
COUNTED = (
    "    text = torch.nn.functional.pad(begins.cumsum(dim=1), (1, 0))\n"
    "    j, p = torch.arange(key), torch.arange(key - query, key)\n"
    "    same = "
)
SEGMENT = "x[:, s * seg_len : (s + 1) * seg_len]"
WRONG = {
    # remember
    "memory n holds what layer n reads, hidden[0]": ("remember", "hidden[:-1]", "hidden[1:]"),
    "one memory too many": ("remember", ("hidden[:-1]", "hidden"), ("strict=True", "strict=False")),
    "new before old: the past comes first": ("remember", "[m, h]", "[h, m]"),
    "the oldest M are kept": ("remember", CUT, "[:, :mem_len]"),
    "[-M:] is everything where M is 0": ("remember", CUT, "[:, -mem_len:]"),
    "M + 1 states are kept": ("remember", CUT, CUT.replace("- mem_len", "- mem_len - 1")),
    "the old memory is lost": (
        "remember",
        REMEMBER + "return [h[:, max(0, h.shape[1] - mem_len) :].detach().clone() for h in hidden[:-1]]",
    ),
    "nothing is ever forgotten": ("remember", CUT, ""),
    "the stop-gradient is missing: memory would keep": ("remember", ".detach()", ""),
    "nothing can train on what is made in inference mode": (
        "remember",
        "def remember",
        "@torch.inference_mode()\ndef remember",
    ),
    "filled up with zeros": (
        "remember",
        "    return",
        "    joined = [torch.cat([torch.zeros(len(of), mem_len, of.shape[2]), of], dim=1) for of in joined]\n"
        "    joined = [of[:, of.shape[1] - mem_len :] for of in joined]\n    return",
    ),
    "no memory is made into M states of zeros": (
        "remember",
        "[h[:, :0] for",
        "[torch.zeros(len(h), mem_len, h.shape[2]) for",
    ),
    "memory was changed in place, and": (
        "remember",
        ("    read =", "    given = memory\n    read ="),
        ("return [", "new = ["),
        ("for of in joined]", "for of in joined]\n    if given:\n        given[:] = new\n    return new"),
    ),
    "memory was changed in place": (
        "remember",
        "    return",
        "    for m, of in zip(memory, joined, strict=True):\n        if m.shape[1] == mem_len:\n"
        "            m[:] = of[:, -mem_len:].detach()\n    return",
    ),
    "the segment's own graph is cut": (
        "remember",
        ("    read =", "    for h in hidden[:-1]:\n        h.detach_()\n    read ="),
    ),
    "where there is no memory yet, the result is a view": (
        "remember",
        REMEMBER + "joined = hidden[:-1]\n    if memory is not None:\n"
        "        joined = [torch.cat(pair, dim=1) for pair in zip(memory, joined, strict=True)]\n"
        "    return [of[:, max(0, of.shape[1] - mem_len) :].detach() for of in joined]",
    ),
    "where M is no longer than the segment, the result is a view": (
        "remember",
        "[torch.cat([m, h], dim=1) for",
        "[torch.cat([m, h], dim=1) if mem_len > h.shape[1] else h for",
    ),
    "the old memory is cut by [-n:] with n = M - seg": (
        "remember",
        ("torch.cat([m, h], dim=1)", IN_TWO.format("max(0, mem_len - h.shape[1])")),
        (CUT, ""),
    ),
    "this is everything where n is 0, and not empty": (
        "remember",
        ("torch.cat([m, h], dim=1)", IN_TWO.format("(mem_len - h.shape[1])")),
        (CUT, ""),
    ),
    "the old memory stays where M is 0": (
        "remember",
        REMEMBER,
        REMEMBER + "if mem_len == 0 and memory is not None:\n        return memory\n    ",
    ),
    "memory may be None, and there is nothing in None": (
        "remember",
        ("    if memory is None:\n        memory = [h[:, :0] for h in read]\n", ""),
    ),
    # look
    "the stop-gradient is missing: what an earlier": ("look", "memory.detach()", "memory"),
    "W was changed in place": (
        "look",
        ("    q = rearr", '    W["q"] = W["q"] / (W["q"].shape[1] / n_head) ** 0.5\n    q = rearr'),
        ("(scores / sqrt(q.shape[-1]))", "scores"),
    ),
    "the whole context is detached": ("look", KEYS, KEYS.replace("context @", "context.detach() @")),
    "W_k and W_v learn nothing from memory": (
        "look",
        ("[memory.detach(), x]", "[memory, x]"),
        (
            "    k, v = (rearrange(context @ W[name],",
            "    mem = context.shape[1] - x.shape[1]\n"
            "    made = {name: context @ W[name] for name in 'kv'}\n"
            "    for name, of in made.items():\n"
            "        made[name] = torch.cat([of[:, :mem].detach(), of[:, mem:]], dim=1)\n"
            "    k, v = (rearrange(made[name],",
        ),
    ),
    "memory asks too": ("look", ('x @ W["q"]', 'context @ W["q"]'), ("j[-x.shape[1] :]", "j")),
    "the queries are counted from 0: row 0 stands after all of memory, at place mem": (
        "look",
        "j[-x.shape[1] :]",
        "j[: x.shape[1]]",
    ),
    "the places of the queries begin at window": (
        "look",
        BACK,
        "torch.arange(window, window + x.shape[1])[:, None] - j",
    ),
    "at place mem, however long the window is": (
        "look",
        BACK,
        "torch.arange(x.shape[1])[:, None] + (0 if memory is None else window - 1) - j",
    ),
    "a query does not see its own place, where j = p": ("look", "back >= 0", "back > 0"),
    "j = p: p - j runs from 0": ("look", "(back >= 0) & (back < window)", "(back > 0) & (back <= window)"),
    "the segment stands before memory": ("look", "[memory.detach(), x]", "[x, memory.detach()]"),
    "the window ends where memory begins": (
        "look",
        "(back < window)",
        "((back < window) | (j < context.shape[1] - x.shape[1]))",
    ),
    "the window holds for memory alone": (
        "look",
        "(back < window)",
        "((back < window) | (j >= context.shape[1] - x.shape[1]))",
    ),
    "one key too many": ("look", "back < window", "back <= window"),
    "one key too few": ("look", "back < window", "back < window - 1"),
    "the window is not used": ("look", " & (back < window)", ""),
    "the future is seen: no query": ("look", "(back >= 0) & ", ""),
    "memory may be None, and nothing": ("look", "x if memory is None else ", ""),
    "ask 'memory is None' first, and take": (
        "look",
        (
            "x if memory is None else torch.cat([memory.detach(), x]",
            "torch.cat([torch.no_grad()(torch.cat)([memory]), x]",
        ),
    ),
    "memory is never read": ("look", "    context =", "    memory = None\n    context ="),
    "no memory is made into states of zeros": (
        "look",
        "    context =",
        "    if memory is None:\n        memory = torch.zeros_like(x)\n    context =",
    ),
    "√d_head is missing": ("look", "scores / sqrt(q.shape[-1])", "scores"),
    "root of all heads' width": ("look", "sqrt(q.shape[-1])", 'sqrt(W["q"].shape[1])'),
    "divided by √(d_model / n_head)": ("look", "sqrt(q.shape[-1])", "sqrt(x.shape[2] / n_head)"),
    "d_head is the width it has": ("look", "sqrt(q.shape[-1])", "sqrt(x.shape[2] // n_head)"),
    "divided by d_head, where": ("look", "sqrt(q.shape[-1])", "q.shape[-1]"),
    "divided by √d_model": ("look", "sqrt(q.shape[-1])", "sqrt(x.shape[2])"),
    "a number such as -30 or -1e4, added to a score, hides nothing": (
        "look",
        MASKED,
        "(scores / sqrt(q.shape[-1]) - 30 * ~seen)",
    ),
    "that lies higher takes the weight all the same": (
        "look",
        MASKED,
        "(scores / sqrt(q.shape[-1]) - 1e4 * ~seen)",
    ),
    "a score of 0 is not hidden: its weight": ("look", INFINITE, "0.0"),
    "a score of 0 is not hidden: its weight is e to the 0. Use -inf": (
        "look",
        MASKED,
        "(scores / sqrt(q.shape[-1]) * seen)",
    ),
    "have already taken their share, so rows sum to less than 1: hide the scores": (
        "look",
        f"{MASKED}.softmax(dim=-1)",
        "(scores / sqrt(q.shape[-1])).softmax(dim=-1) * seen",
    ),
    "where the hidden keys have all the weight": (
        "look",
        f"{MASKED}.softmax(dim=-1)",
        "(scores / sqrt(q.shape[-1])).softmax(dim=-1) * seen\n"
        "    weights = weights / weights.sum(dim=-1, keepdim=True)",
    ),
    "of scores far below 0 it is 0": (
        "look",
        f"{MASKED}.softmax(dim=-1)",
        "(scores / sqrt(q.shape[-1])).exp() * seen\n"
        "    weights = weights / weights.sum(dim=-1, keepdim=True)",
    ),
    "the softmax runs over the queries": ("look", ".softmax(dim=-1)", ".softmax(dim=-2)"),
    "the heads are dealt out in turn": (
        "look",
        ('"batch pos (head dim)', '"batch pos (dim head)'),
        ("batch query (head dim)", "batch query (dim head)"),
    ),
    "are dealt out in turn: '(head dim)'": ("look", '"batch pos (head dim)', '"batch pos (dim head)'),
    "in turn: '(head dim)', head 0 first": ("look", "batch query (head dim)", "batch query (dim head)"),
    "missing for the keys or the values": (
        "look",
        ("[memory.detach(), x]", "[memory, x]"),
        (
            "    cut =",
            "    stopped = x if memory is None else torch.cat([memory.detach(), x], dim=1)\n    cut =",
        ),
        (
            "context @ W[name]",
            "(context if name == 'v' else stopped) @ W[name]",
        ),
    ),
    "detach memory once, before both": (
        "look",
        ("[memory.detach(), x]", "[memory, x]"),
        (
            "    cut =",
            "    stopped = x if memory is None else torch.cat([memory.detach(), x], dim=1)\n    cut =",
        ),
        (
            "context @ W[name]",
            "(context if name == 'k' else stopped) @ W[name]",
        ),
    ),
    "all queries have one window: each": ("look", "(back < window)", "(back[-1:] < window)"),
    "its own, which ends at its own place": ("look", "(back < window)", "(back[:1] < window)"),
    "all queries have the mask of the last": ("look", "    scores =", "    seen = seen[-1:]\n    scores ="),
    # weigh
    "the mask is turned round": ("weigh", ".tril(key - query)", ".triu(key - query)"),
    "the mask is strict: a query hides": ("weigh", ".tril(key - query)", ".tril(key - query - 1)"),
    "a query hides its own place, and j = p": (
        "weigh",
        (".tril(key - query)", ".tril(key - query - 1)"),
        (".softmax(dim=-1)", ".softmax(dim=-1).nan_to_num(0.0)"),
    ),
    "a score of 0 is not hidden": (
        "weigh",
        ("    seen = same &", "    scores = scores * same[:, None]\n    seen ="),
        ("~seen,", "~seen.expand_as(same),"),
    ),
    "so rows sum to less than 1": (
        "weigh",
        ("seen = same &", "seen ="),
        ("~seen,", "~seen.expand_as(same),"),
        (".softmax(dim=-1)", ".softmax(dim=-1) * same[:, None]"),
    ),
    "neither is a state of zeros": ("weigh", INFINITE, "0.0"),
    "have already taken their share, so rows sum to less than 1: hide the scores, before": (
        "weigh",
        HIDDEN,
        "scores.softmax(dim=-1).masked_fill(hidden, 0.0)",
    ),
    "have all the weight, this is 0 / 0": (
        "weigh",
        f"return {HIDDEN}",
        "weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0)\n"
        "    return weights / weights.sum(dim=-1, keepdim=True)",
    ),
    "0 / 0 is no weight. softmax": (
        "weigh",
        f"return {HIDDEN}",
        "weights = scores.exp().masked_fill(hidden, 0.0)\n"
        "    return weights / weights.sum(dim=-1, keepdim=True)",
    ),
    "each query shares its weight among the keys": ("weigh", "softmax(dim=-1)", "softmax(dim=-2)"),
    "beginnings in memory are not used": (
        "weigh",
        "begins.cumsum(dim=1)",
        "(begins & (torch.arange(key) >= key - query)).cumsum(dim=1)",
    ),
    "resets all lanes": ("weigh", "begins.cumsum(dim=1)", "begins.any(dim=0, keepdim=True).cumsum(dim=1)"),
    "the first token of a text counts as the last": (
        "weigh",
        "begins.cumsum(dim=1)",
        "begins.cumsum(dim=1).roll(1, 1)\n    text[:, 0] = 0",
    ),
    "the first token of a text is hidden from the rest": (
        "weigh",
        TEXT,
        COUNTED + "text[:, p + 1][:, :, None] == text[:, j][:, None, :]",
    ),
    "no text begins at j + 1 to p, and what": (
        "weigh",
        TEXT,
        COUNTED + "(text[:, p + 1][:, :, None] == text[:, j][:, None, :]) | (j == p[:, None])",
    ),
    "a beginning at the query's own place does not": (
        "weigh",
        TEXT,
        COUNTED + "text[:, p][:, :, None] <= text[:, j + 1][:, None, :]",
    ),
    "still seen in the segment": ("weigh", "same &", f"(same | {OWN}) &"),
    "the lane is reset for all its queries": (
        "weigh",
        (SAME, "text[:, -1:, None] == text[:, None, :]"),
        ("same &", f"(same | {OWN}) &"),
    ),
    "memory is hidden by the text that the segment begins with": (
        "weigh",
        (SAME, "text[:, key - query, None, None] == text[:, None, :]"),
        ("same &", f"(same | {OWN}) &"),
    ),
    "the text before the present one is seen too": (
        "weigh",
        SAME,
        "text[:, -query:, None] - 1 <= text[:, None, :]",
    ),
    "only the last beginnings of a lane count": (
        "weigh",
        "    text = begins",
        "    begins = begins & (begins.flip(1).cumsum(dim=1).flip(1) <= 2)\n    text = begins",
    ),
    "-1e4, added to a score, hides nothing where scores are large": (
        "weigh",
        HIDDEN,
        "(scores + -1e4 * hidden).softmax(dim=-1)",
    ),
    "the queries are counted from 0: row 0 stands after all of memory, at place key - query": (
        "weigh",
        ("text[:, -query:, None]", "text[:, :query, None]"),
        ("tril(key - query)", "tril()"),
    ),
    "counted from 0: row 0 stands after all of memory, at place key": (
        "weigh",
        "tril(key - query)",
        "tril()",
    ),
    "the softmax of -inf alone is nan": (
        "weigh",
        SAME,
        "torch.arange(key) >= (begins * torch.arange(key)).amax(dim=1)[:, None, None]",
    ),
    "those before it see no key then": (
        "weigh",
        (SAME, "torch.arange(key) >= (begins * torch.arange(key)).amax(dim=1)[:, None, None]"),
        (".softmax(dim=-1)", ".softmax(dim=-1).nan_to_num(0.0)"),
    ),
    "the future is seen: a key of the same text": ("weigh", SEEN, "same"),
    "lanes are taken for heads": (
        "weigh",
        'rearrange(~seen, "batch query key -> batch 1 query key")',
        "~seen",
    ),
    "only the first beginning of a lane counts": (
        "weigh",
        "begins.cumsum(dim=1)",
        "(torch.arange(scores.shape[-1]) >= begins.float().argmax(1)[:, None]).long()",
    ),
    "no text ever begins here": ("weigh", "begins.cumsum", "torch.zeros_like(begins).cumsum"),
    "scores was changed in place": ("weigh", "masked_fill(", "masked_fill_("),
    "begins was changed in place": ("weigh", "    text =", "    begins[:, 0] = True\n    text ="),
    # stream
    "outputs are remembered": (
        "stream",
        (
            "            joined = torch",
            "            old = memory[n]\n            h = layer(h, old)\n            joined = torch",
        ),
        (".detach()\n" + LAYER, ".detach()\n"),
    ),
    "all layers look back at the embeddings": (
        "stream",
        STREAM + "memory, found = x[:, :0], []\n"
        "    for segment in x.split(seg_len, dim=1):\n"
        "        h = segment\n"
        "        for layer in layers:\n"
        "            h = layer(h, memory)\n"
        "        memory = torch.cat([memory, segment], dim=1).detach()\n"
        "        memory = memory[:, max(0, memory.shape[1] - mem_len) :]\n"
        "        found.append(h)\n"
        "    return torch.cat(found, dim=1)",
    ),
    "one memory for all layers": ("stream", "memory[n]", "memory[0]"),
    "it sees its segment twice": (
        "stream",
        LAYER + f"            memory[n] = {NEWEST}\n",
        f"            memory[n] = {NEWEST}\n" + LAYER,
    ),
    "memory is never handed on": ("stream", f"            memory[n] = {NEWEST}\n", ""),
    "only the segment before is remembered": ("stream", "torch.cat([memory[n], h], dim=1)", "h"),
    "the oldest M are kept: it": ("stream", NEWEST, "joined[:, :mem_len]"),
    "nothing is ever forgotten: M": ("stream", NEWEST, "joined"),
    "[-M:] is everything where M is 0: count": ("stream", NEWEST, "joined[:, -mem_len:]"),
    "the old memory is cut by [-n:] with n = M - L": (
        "stream",
        (
            JOINED,
            "            keep = max(0, mem_len - h.shape[1])\n"
            "            joined = torch.cat([memory[n][:, -keep:], h[:, -mem_len:]], dim=1).detach()\n",
        ),
        (NEWEST, "joined"),
    ),
    "new before old": ("stream", "[memory[n], h]", "[h, memory[n]]"),
    "a loss goes back through all segments": ("stream", "dim=1).detach()", "dim=1)"),
    "the segment is detached too": ("stream", LAYER, LAYER.replace("(h,", "(h.detach(),")),
    "nothing learns": (
        "stream",
        ("    for h in", "    torch.set_grad_enabled(False)\n    for h in"),
        ("    return", "    torch.set_grad_enabled(True)\n    return"),
    ),
    "it raised TypeError: memory begins as zero tokens, [batch 0 model], and not as None": (
        "stream",
        ("[x[:, :0].detach()] * len(layers)", "[None] * len(layers)"),
        ("torch.cat([memory[n], h], dim=1)", "torch.cat([memory[n], h] if found else [h], dim=1)"),
    ),
    "memory begins with M zeros": (
        "stream",
        "x[:, :0].detach()",
        "torch.zeros(len(x), mem_len, x.shape[2])",
    ),
    "the end of the stream is lost": (
        "stream",
        "x.split(seg_len, dim=1)",
        "x[:, : x.shape[1] // seg_len * seg_len].split(seg_len, dim=1)",
    ),
    "the end of the stream is lost: the last segment": (
        "stream",
        "x.split(seg_len, dim=1)",
        "(x[:, s * seg_len : (s + 1) * seg_len] for s in range(x.shape[1] // seg_len))",
    ),
    "is lost: the last segment may be shorter than L": (
        "stream",
        (
            "    for h in x.split(seg_len, dim=1):\n",
            "    result = torch.zeros_like(x)\n    for s in range(x.shape[1] // seg_len):\n"
            "        h = x[:, s * seg_len : (s + 1) * seg_len]\n",
        ),
        ("found.append(h)", "result[:, s * seg_len : (s + 1) * seg_len] = h"),
        ("return torch.cat(found, dim=1)", "return result"),
    ),
    "of the stream is lost: the last segment": (
        "stream",
        "x.split(seg_len, dim=1)",
        f"({SEGMENT} for s in range(max(1, x.shape[1] // seg_len)))",
    ),
    "the last segment is never read, whole or not": (
        "stream",
        "x.split(seg_len, dim=1)",
        "(x[:, at : at + seg_len] for at in range(0, x.shape[1] - seg_len, seg_len))",
    ),
    "the end of the stream is read with the segment before": (
        "stream",
        "x.split(seg_len, dim=1)",
        "((lambda n: (x[:, s * seg_len : (s + 1) * seg_len if s < n - 1 else None] for s in range(n)))"
        "(max(1, x.shape[1] // seg_len)))",
    ),
    "the last segment is filled up to L": (
        "stream",
        (
            "    for h in x",
            "    time = x.shape[1]\n    x = torch.nn.functional.pad(x, (0, 0, 0, -time % seg_len))\n"
            "    for h in x",
        ),
        ("torch.cat(found, dim=1)", "torch.cat(found, dim=1)[:, :time]"),
    ),
    "however long that is: split(L) cuts": (
        "stream",
        "x.split(seg_len, dim=1)",
        "x.chunk(max(1, x.shape[1] // seg_len), dim=1)",
    ),
    "chunk(n) cuts into n parts": (
        "stream",
        "x.split(seg_len, dim=1)",
        "x.chunk(-(-x.shape[1] // seg_len), dim=1)",
    ),
    "the stream is read at once": ("stream", "x.split(seg_len, dim=1)", "[x]"),
    # numbers
    "the last output is read by none": (
        "numbers",
        'mine["n_layer"] * mine["batch"]',
        '(mine["n_layer"] + 1) * mine["batch"]',
    ),
    "states are kept, and not keys": (
        "numbers",
        'mine["n_layer"] * mine["batch"]',
        '2 * mine["n_layer"] * mine["batch"]',
    ),
    "each layer has a memory of its own": ("numbers", 'mine["n_layer"] * mine["batch"]', 'mine["batch"]'),
    "each lane has a memory": ("numbers", 'mine["batch"] * M', "M"),
    "the segment that is read now": ("numbers", "* M *", "* (L + M) *"),
    "M tokens, and not L": ("numbers", "* M *", "* L *"),
    "that come after it": ("numbers", "L * M + L * (L + 1) // 2", "L * (L + M)"),
    "all of memory, too": ("numbers", "L * M + L * (L + 1) // 2", "L * (L + 1) // 2"),
    "each query sees itself": ("numbers", "(L + 1) // 2", "(L - 1) // 2"),
    "up to its place": ("numbers", "L * M + L * (L + 1) // 2", "L * M"),
    "the states in memory ask nothing": ("numbers", "L * M + L * (L + 1) // 2", "(M + L) * (M + L + 1) // 2"),
    "the next begins at the first of one": (
        "numbers",
        'L - 1 + mine["n_layer"] * M',
        'mine["n_layer"] * (M + L - 1)',
    ),
    "not a segment further": ("numbers", 'L - 1 + mine["n_layer"] * M', 'mine["n_layer"] * (M + L)'),
    "that is one layer": ("numbers", 'L - 1 + mine["n_layer"] * M', "L - 1 + M"),
    "as many hops as layers": ("numbers", 'mine["n_layer"] * M,\n    }', '(mine["n_layer"] - 1) * M,\n    }'),
    "L - 1 tokens after": ("numbers", 'L - 1 + mine["n_layer"]', 'mine["n_layer"]'),
    "the last query counts itself": ("numbers", "L - 1 +", "L +"),
    "starts from the last token": ("numbers", 'L - 1 + mine["n_layer"] * M', 'mine["n_layer"] * L'),
    "more than one segment": ("numbers", 'L - 1 + mine["n_layer"] * M', 'L - 1 + mine["n_layer"] * L'),
}
