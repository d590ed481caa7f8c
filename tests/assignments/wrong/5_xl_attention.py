"""Wrong solutions of assignment 5, by words of the message that each must get, as changes of its cell."""

TO_DISTANCES = (
    "    i = torch.arange(key - query, key)[:, None]\n"
    "    far = (key - 1 - i + torch.arange(key)).clamp(max=key - 1)\n"
)
WRONG = {
    # keys
    "the order is turned round": ("keys", "torch.arange(key - 1, -1, -1.0)", "torch.arange(0.0, key)"),
    "these are the distances key … 1": ("keys", "key - 1, -1, -1.0", "key, 0, -1.0"),
    "the sign is flipped": ("keys", "einsum(away,", "einsum(-away,"),
    "sines and cosines are interleaved": (
        "keys",
        "torch.cat([angles.sin(), angles.cos()], dim=1)",
        'rearrange([angles.sin(), angles.cos()], "two dist half -> dist (half two)")',
    ),
    "the cosines come first": (
        "keys",
        "[angles.sin(), angles.cos()]",
        "[angles.cos(), angles.sin()]",
    ),
    "the exponent is m / d_model here": (
        "keys",
        "(torch.arange(0, d_model, 2) / d_model)",
        "(torch.arange(d_model // 2) / d_model)",
    ),
    "divided by d_model - 2": (
        "keys",
        "(torch.arange(0, d_model, 2) / d_model)",
        "(torch.arange(0, d_model, 2) / (d_model - 2))",
    ),
    "the clamp is never used": ("keys", "clamp_len is not None", "False"),
    "a clamp_len of 0 is taken for none": ("keys", "if clamp_len is not None", "if clamp_len"),
    "the clamp works on the wrong side": ("keys", "clamp(max=clamp_len)", "clamp(clamp_len)"),
    "distances beyond clamp_len are zeros": (
        "keys",
        ("    if clamp_len is not None:\n        away = away.clamp(max=clamp_len)\n", ""),
        (
            "    return ",
            "    if clamp_len is not None:\n        R = R * (away <= clamp_len)[:, None]\n    return ",
        ),
    ),
    "each head owns neighbouring columns": ("keys", "(head dim)", "(dim head)"),
    "reshape alone moves no axis": (
        "keys",
        'rearrange(R @ W_kR, "dist (head dim) -> head dist dim", head=n_head)',
        "(R @ W_kR).reshape(n_head, key, -1)",
    ),
    "the clamp is off by one": ("keys", "max=clamp_len", "max=clamp_len + 1"),
    # terms
    "u and v have changed places: u meets": (
        "terms",
        ("c = einsum(u", "c = einsum(v"),
        ("d = einsum(v", "d = einsum(u"),
    ),
    "u is used for both": ("terms", "d = einsum(v", "d = einsum(u"),
    "v is used for both": ("terms", "c = einsum(u", "c = einsum(v"),
    "all heads share the biases of head 0: u and v have a row for each head": (
        "terms",
        ("    query, key =", "    u, v = u[0], v[0]\n    query, key ="),
        ('einsum(u, k, "head dim,', 'einsum(u, k, "dim,'),
        ('einsum(v, to_key, "head dim,', 'einsum(v, to_key, "dim,'),
    ),
    "the query is still in (c) and (d)": (
        "terms",
        ("einsum(u, k,", "einsum(q + u[:, None], k,"),
        ('"head dim, batch head key dim -> batch head key"', '"b h q dim, b h key dim -> b h q key"'),
        ("einsum(v, to_key,", "einsum(q + v[:, None], to_key,"),
        ('"head dim, head query key dim -> head query key"', '"b h q dim, h q key dim -> b h q key"'),
        ('    c = rearrange(c, "batch head key -> batch head 1 key")\n', ""),
    ),
    "(b) and (d) are not divided by √d_head": (
        "terms",
        ("torch.broadcast_tensors(a, b, c, d)) / sqrt(q.shape[-1])", "torch.broadcast_tensors(a, b, c, d))"),
        ("    terms =", "    a, c = a / sqrt(q.shape[-1]), c / sqrt(q.shape[-1])\n    terms ="),
    ),
    "(c) and (d) are not divided by √d_head": (
        "terms",
        ("torch.broadcast_tensors(a, b, c, d)) / sqrt(q.shape[-1])", "torch.broadcast_tensors(a, b, c, d))"),
        ("    terms =", "    a, b = a / sqrt(q.shape[-1]), b / sqrt(q.shape[-1])\n    terms ="),
    ),
    "(b), (c) and (d) are not divided by √d_head": (
        "terms",
        ("torch.broadcast_tensors(a, b, c, d)) / sqrt(q.shape[-1])", "torch.broadcast_tensors(a, b, c, d))"),
        ("    terms =", "    a = a / sqrt(q.shape[-1])\n    terms ="),
    ),
    "(d) is not divided by √d_head": (
        "terms",
        ("torch.broadcast_tensors(a, b, c, d)) / sqrt(q.shape[-1])", "torch.broadcast_tensors(a, b, c, d))"),
        ("    terms =", "    a, b, c = (term / sqrt(q.shape[-1]) for term in (a, b, c))\n    terms ="),
    ),
    "divided by the root of the model's width": ("terms", "sqrt(q.shape[-1])", "sqrt(len(u) * q.shape[-1])"),
    "divided by d_head, where": ("terms", "sqrt(q.shape[-1])", "q.shape[-1]"),
    "r is read from its wrong end": ("terms", "(key - 1 - away).clamp(max=key - 1)", "away"),
    "off by one: the last row of r": ("terms", "(key - 1 - away)", "(key - away)"),
    "the queries are counted from 0": ("terms", "torch.arange(key - query, key)", "torch.arange(query)"),
    "the columns of (b) and (d) are still distances": (
        "terms",
        "r[:, (key - 1 - away).clamp(max=key - 1)]",
        "r[:, None].expand(-1, query, -1, -1)",
    ),
    "the terms of the future are not 0": ("terms", ".masked_fill(away < 0, 0.0)", ""),
    "set them in all four": (
        "terms",
        ".masked_fill(away < 0, 0.0)",
        " * torch.stack([away > -key, away >= 0, away > -key, away >= 0])[:, None, None]",
    ),
    "(b) and (c) have changed places": ("terms", "(a, b, c, d)", "(a, c, b, d)"),
    # shift
    "off by one, as with the padding": ("shift", "(1, 0)", "(0, 1)"),
    "the wrong end of the line is sliced off": ("shift", "line[..., query:]", "line[..., :-query]"),
    "one entry is dropped": ("shift", "line[..., query:]", "line[..., 1 : 1 + query * key]"),
    "off by one: one entry too few is dropped": ("shift", "line[..., query:]", "line[..., query - 1 : -1]"),
    "nothing is shifted: each row": (
        "shift",
        "def relative_shift(scores, key):\n    return scores[..., scores.shape[-1] - key :]",
    ),
    "all rows move alike": (
        "shift",
        "def relative_shift(scores, key):\n    query, dist = scores.shape[-2:]\n"
        "    return scores[..., dist - key :].roll(-(query - 1), dims=3)",
    ),
    "the rows move the wrong way round": (
        "shift",
        "def relative_shift(scores, key):\n    query, dist = scores.shape[-2:]\n"
        "    rows = [pad(scores[..., i, dist - key + i :], (0, i)) for i in range(query)]\n"
        "    return torch.stack(rows, dim=-2)",
    ),
    "the near distances are cut off": ("shift", "scores[..., spare:]", "scores[..., :key]"),
    "as a loop over the rows does": (
        "shift",
        "def relative_shift(scores, key):\n    query, dist = scores.shape[-2:]\n"
        "    moves = [dist - key + query - 1 - i for i in range(query)]\n"
        "    wide = pad(scores, (0, query))\n"
        "    return torch.stack([wide[..., i, by : by + key] for i, by in enumerate(moves)], dim=-2)",
    ),
    "there is a table of indices": (
        "shift",
        "def relative_shift(scores, key):\n    query, dist = scores.shape[-2:]\n"
        "    i = torch.arange(query)[:, None]\n"
        "    wanted = (torch.arange(key) + query - 1 - i + dist - key).clamp(max=dist - 1)\n"
        "    return scores[..., i, wanted]",
    ),
    # layer
    "u is divided by √d_head twice": ("layer", "q + u[:, None]", "q + u[:, None] / sqrt(dim)"),
    "v is divided by √d_head twice": ("layer", "q + v[:, None]", "q + v[:, None] / sqrt(dim)"),
    "u and v have changed places: u goes": (
        "layer",
        ("q + u[", "q + w["),
        ("q + v[", "q + u["),
        ("q + w[", "q + v["),
    ),
    "u is added in both products": ("layer", "q + v[", "q + u["),
    "all heads share the biases of head 0: ": (
        "layer",
        ("q + u[:, None]", "q + u[0]"),
        ("q + v[:, None]", "q + v[0]"),
    ),
    "the query is missing in the product": ("layer", "q + v[:, None]", "0 * q + v[:, None]"),
    "the distances are not divided": (
        "layer",
        "(content + shifted) / sqrt(dim)",
        "content / sqrt(dim) + shifted",
    ),
    "the division by √d_head is missing": ("layer", " / sqrt(dim)", ""),
    "q alone is divided": (
        "layer",
        ("    k, values =", "    q = q / sqrt(dim)\n    k, values ="),
        ("(content + shifted) / sqrt(dim)", "(content + shifted)"),
    ),
    "R is turned round": ("layer", "R @", "R.flip(0) @"),
    "nothing is shifted: the columns": ("layer", "content + shifted", "content + distance"),
    "each key has the vector of its own place": (
        "layer",
        ("R @", "R.flip(0) @"),
        ("content + shifted", "content + distance"),
    ),
    "the keys of distance are made with W_kE": ("layer", 'W["kR"]', 'W["kE"]'),
    "there is no mask": ("layer", '.masked_fill(future, float("-inf"))', ""),
    "a number such as -30 or -1e4, added to a score, hides nothing": (
        "layer",
        '((content + shifted) / sqrt(dim)).masked_fill(future, float("-inf"))',
        "(content + shifted) / sqrt(dim) - 30 * future",
    ),
    "that lies higher takes the weight all the same": (
        "layer",
        '((content + shifted) / sqrt(dim)).masked_fill(future, float("-inf"))',
        "(content + shifted) / sqrt(dim) + future.float() * -1e4",
    ),
    "hides each query's own key": ("layer", ".triu(key - query + 1)", ".triu(key - query)"),
    "d_head is the width of one head": ("layer", "sqrt(dim)", "sqrt(x.shape[-1])"),
    "d_head, where its root is asked for": ("layer", "sqrt(dim)", "dim"),
    "the root of the model's width: d_head": ("layer", "sqrt(dim)", "sqrt(n_head * dim)"),
    "the mask counts the queries from 0": ("layer", ".triu(key - query + 1)", ".triu(1)"),
    "the memory stands behind the segment": ("layer", "[memory.detach(), x]", "[x, memory.detach()]"),
    "W_o is missing": ("layer", ' @ W["o"]', ""),
    "'(head dim)', head 0 first": ("layer", "-> batch query (head dim)", "-> batch query (dim head)"),
    "a gradient enters the memory": ("layer", "memory.detach()", "memory"),
    "detach the memory alone": (
        "layer",
        "torch.cat([memory.detach(), x], dim=1)",
        "torch.cat([memory, x], dim=1).detach()",
    ),
    "the values are right, and the gradient of x is not": (
        "layer",
        "    n_head, dim = u.shape\n",
        "    context = context.detach()\n    n_head, dim = u.shape\n",
    ),
    "no gradient reaches x": ("layer", "def xl_attention", "@torch.no_grad()\ndef xl_attention"),
    "there is a vector for each pair": (
        "layer",
        "    shifted = pad(distance, (1, 0)).flatten(2)[..., query:].unflatten(2, (query, key))\n",
        TO_DISTANCES
        + '    shifted = einsum(q + v[:, None], r[:, far], "b h q dim, h q key dim -> b h q key")\n',
    ),
    "divided by √(d_model / n_head)": ("layer", "sqrt(dim)", "sqrt(x.shape[2] / n_head)"),
    # numbers
    "there are five matrices": ("numbers", '5 * mine["d_model"]', '4 * mine["d_model"]'),
    "u and v are learned too": ("numbers", ' + 2 * mine["d_model"]', ""),
    "u and v are two": ("numbers", ' + 2 * mine["d_model"]', ' + mine["d_model"]'),
    "each head has a u and a v": ("numbers", '2 * mine["d_model"]', '2 * mine["d_model"] // mine["n_head"]'),
    "R is sinusoids, and not learned": ("numbers", '2 * mine["d_model"]', '(2 + key) * mine["d_model"]'),
    "a row for each pair": ("numbers", '"projected": key', '"projected": mine["query"] * key'),
    "the same for the whole batch": ("numbers", '"projected": key', '"projected": mine["batch"] * key'),
    "the segment is forgotten": ("numbers", '"projected": key', '"projected": mine["mem"]'),
    "each text has its products": ("numbers", 'mine["batch"] * mine["query"]', 'mine["query"]'),
    "a column for each distance": (
        "numbers",
        'mine["query"] * key * mine["d_model"]',
        'mine["query"] ** 2 * mine["d_model"]',
    ),
    "the padding stands there too": ("numbers", '(mine["places"] - 2)', '(mine["places"] - 1)'),
    "its column before the shift": ("numbers", 'key - 1 - (mine["places"] - 2)', 'mine["places"] - 2'),
    "that is how far ahead the key is": ("numbers", 'key - 1 - (mine["places"] - 2)', 'mine["places"]'),
    "the columns begin with distance key - 1": (
        "numbers",
        'key - 1 - (mine["places"] - 2)',
        'mine["query"] + 1 - mine["places"]',
    ),
}
