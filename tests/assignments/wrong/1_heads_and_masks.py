"""Wrong solutions of assignment 1, by words of the message that each must get, as changes of its cell."""

PROJECT = "def project(x, W, n_head):\n    return "
SEEN = "def seen_keys(lengths, query, key, causal):\n    j = torch.arange(key)\n    "
SOFTMAX = 'weights = (scores / sqrt(q.shape[-1])).masked_fill(~seen, float("-inf")).softmax(dim=-1)'
POWERS = "powers = torch.exp(scores / sqrt(q.shape[-1])) * seen\n    "
WRONG = {
    # project
    "deals the columns out in turn": ("project", "(head dim)", "(dim head)"),
    "reshape alone moves no axis": (
        "project",
        PROJECT + "(x @ W).view(len(x), n_head, x.shape[1], W.shape[1] // n_head)",
    ),
    "pos still stands before head": ("project", "batch head pos dim", "batch pos head dim"),
    "dim is the last axis": ("project", "batch head pos dim", "batch head dim pos"),
    "x @ W, and not x @ W.T": ("project", "x @ W,", "x @ W.T,"),
    "take it from W": (
        "project",
        PROJECT + "(x @ W).view(*x.shape[:2], n_head, x.shape[-1] // n_head).transpose(1, 2)",
    ),
    "whose columns are (head dim)": (
        "project",
        "def project(x, W, n_head):\n    d = x.shape[-1] // n_head\n"
        "    return torch.stack([(x @ W)[..., h * d : (h + 1) * d] for h in range(n_head)], dim=1)",
    ),
    "view or reshape moves no axis: a head owns columns of W": (
        "project",
        PROJECT + "torch.einsum('bpm,hmd->bhpd', x, W.view(n_head, x.shape[-1], -1))",
    ),
    "you returned the shape [": ("project", PROJECT + "x"),
    # seen
    "inverted": (
        "seen",
        "return real & past if causal else real",
        "return ~(real & past if causal else real)",
    ),
    "row 0 stands at place key - query": ("seen", "torch.arange(key - query, key)", "torch.arange(query)"),
    "counted from the end of each text": (
        "seen",
        "past = j <= torch.arange(key - query, key)[:, None]",
        "past = j <= torch.arange(query)[:, None] + lengths[:, None, None] - query",
    ),
    "strict": ("seen", "j <=", "j <"),
    "one key of padding is seen": ("seen", "j < lengths", "j <= lengths"),
    "the last real key is hidden": ("seen", "j < lengths[:, None]", "j < lengths[:, None] - 1"),
    "'or' where 'and' belongs": ("seen", "real & past", "real | past"),
    "hides rows here": (
        "seen",
        SEEN + "i = torch.arange(key - query, key)[:, None]\n"
        "    real = (i < lengths[:, None, None]).expand(-1, -1, key)\n"
        "    return real & (j <= i) if causal else real",
    ),
    "all texts have the length of the first": (
        "seen",
        "j < lengths[:, None]",
        "j < 0 * lengths[:, None] + lengths[0]",
    ),
    "the causal mask is turned round": ("seen", "j <=", "j >="),
    "the padding is seen": ("seen", "j < lengths[:, None]", "j < torch.full_like(lengths, key)[:, None]"),
    "causal makes no difference": ("seen", "real & past if causal else real", "real"),
    "causal even where it is not asked for": ("seen", "real & past if causal else real", "real & past"),
    "all queries have the mask of the first: each": (
        "seen",
        "real & past if causal else real",
        "(real & past if causal else real)[:, :1].expand(-1, query, -1)",
    ),
    # attend
    "√d_head is missing": ("attend", "scores / sqrt(q.shape[-1])", "scores"),
    "divided by d_head": ("attend", "sqrt(q.shape[-1])", "q.shape[-1]"),
    "root of all heads' width": ("attend", "sqrt(q.shape[-1])", "sqrt(q.shape[1] * q.shape[-1])"),
    "the largest score is sought among hidden keys": (
        "attend",
        SOFTMAX,
        "scores = scores / sqrt(q.shape[-1])\n"
        "    powers = torch.exp(scores - scores.max(-1, keepdim=True).values) * seen\n"
        "    weights = powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)",
    ),
    "divided by the root of the number of keys": ("attend", "sqrt(q.shape[-1])", "sqrt(k.shape[-2])"),
    "a small number such as 1e-9 is added to the sum": (
        "attend",
        SOFTMAX,
        POWERS + "weights = powers / (powers.sum(-1, keepdim=True) + 1e-9)",
    ),
    "of scores far below 0 it is 0, and 0 / 0": (
        "attend",
        SOFTMAX,
        POWERS + "weights = powers / powers.sum(-1, keepdim=True)\n    weights = weights.nan_to_num(0.0)",
    ),
    "0 / 0 is no weight. softmax subtracts it": (
        "attend",
        SOFTMAX,
        POWERS + "return powers / powers.sum(-1, keepdim=True) @ v",
    ),
    "hidden keys have already taken their share": ("attend", '.masked_fill(~seen, float("-inf"))', ""),
    "a score of 0 is not hidden": (
        "attend",
        ('float("-inf")', "0.0"),
        ("    weights = weights.masked_fill(~seen, 0.0)\n", ""),
    ),
    "gets NaN": ("attend", "    weights = weights.masked_fill(~seen, 0.0)\n", ""),
    "softmax is uniform": (
        "attend",
        ('float("-inf")', "-1e9"),
        ("    weights = weights.masked_fill(~seen, 0.0)\n", ""),
    ),
    "the wrong way round": ("attend", "~seen", "seen"),
    "the softmax runs over the queries": ("attend", "softmax(dim=-1)", "softmax(dim=-2)"),
    "q was changed in place": (
        "attend",
        ("    scores =", "    q /= sqrt(q.shape[-1])\n    scores ="),
        (" / sqrt(q.shape[-1])).", ")."),
    ),
    "all queries have the mask of the first: seen": (
        "attend",
        "    scores =",
        "    seen = seen[:, :1]\n    scores =",
    ),
    # layer
    "the queries come from the context here": ("layer", 'x @ W["q"]', 'source @ W["q"]'),
    "have changed places": (
        "layer",
        "    source =",
        "    if context is not None:\n        x, context = context, x\n    source =",
    ),
    "the values come from x": (
        "layer",
        '(rearrange(source @ W[name], cut, head=n_head) for name in ("k", "v"))',
        '(rearrange(source @ W["k"], cut, head=n_head), rearrange(x @ W["v"], cut, head=n_head))',
    ),
    "the context is never read": (
        "layer",
        "source = x if context is None else context",
        "context = None\n    source = x",
    ),
    "cross-attention is causal here": (
        "layer",
        ("    if context is None:\n        seen", "    seen"),
        ("torch.ones(x.shape[1], x.shape[1]", "torch.ones(x.shape[1], k.shape[2]"),
    ),
    "all texts have the length of the first here: lengths": (
        "layer",
        "< lengths[:, None]",
        "< lengths[:1, None]",
    ),
    "the division by √d_head is missing": ("layer", "scores / sqrt(q.shape[-1])", "scores"),
    "d_head, where its root is asked for": ("layer", "sqrt(q.shape[-1])", "q.shape[-1]"),
    "divided by the root of the model's width": ("layer", "sqrt(q.shape[-1])", "sqrt(x.shape[-1])"),
    "divided by the root of the number of keys: d_head is": (
        "layer",
        "sqrt(q.shape[-1])",
        "sqrt(k.shape[2])",
    ),
    "the results of padded queries are made 0": (
        "layer",
        ("    return rearrange(z,", "    found = rearrange(z,"),
        (
            ' @ W["o"]\n',
            ' @ W["o"]\n    real = torch.arange(x.shape[1]) < lengths[:, None]\n'
            "    return found * real[..., None] if context is None else found\n",
        ),
    ),
    "self-attention is not causal here": ("layer", ".tril()", ""),
    "padding is seen: lengths counts": ("layer", "< lengths[:, None]", "< k.shape[2] + 0 * lengths[:, None]"),
    "W_o is missing": ("layer", ' @ W["o"]', ""),
    "the heads are not side by side": (
        "layer",
        'rearrange(z, "batch head query dim -> batch query (head dim)")',
        "z.reshape(*x.shape[:2], -1)",
    ),
    "the heads are dealt out in turn": ("layer", "-> batch query (head dim)", "-> batch query (dim head)"),
    # numbers
    "the heads share the width": (
        "numbers",
        '4 * mine["d_model"] ** 2',
        '4 * mine["d_model"] ** 2 * mine["n_head"]',
    ),
    "W_o has parameters too": ("numbers", "4 * mine", "3 * mine"),
    "there are no biases here": (
        "numbers",
        '4 * mine["d_model"] ** 2',
        '4 * mine["d_model"] * (mine["d_model"] + 1)',
    ),
    "each head has weights of its own": ("numbers", 'pairs * mine["n_head"]', "pairs"),
    "this is for one text": ("numbers", 'pairs * mine["n_head"]', 'pairs * mine["n_head"] // mine["batch"]'),
    "for each of d_head dimensions": ("numbers", 'pairs * mine["d_model"]', 'pairs * mine["n_head"]'),
}
