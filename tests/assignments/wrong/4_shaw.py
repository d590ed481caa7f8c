"""Wrong solutions of assignment 4, by words of the message that each must get, as changes of its cell."""

ROWS = "def past_rows(query, mem, k, clamp_len):\n    "
COLLECT = "def collect(weights, v, table, rows):\n    "
ADDED = "by_row.scatter_add(-1, index.clamp(min=0), placed)"
MASKED = "    placed = weights.masked_fill(index < 0, 0.0)\n"
WRONG = {
    "the future reads the farthest row": (
        "rows",
        "(i - j).clamp(0, farthest)",
        "(i - j).clamp(0, farthest).masked_fill(i < j, farthest)",
    ),
    # rows
    "this is the paper's order": (
        "rows",
        "return (i - j).clamp(0, farthest)",
        "return k - (i - j).clamp(0, farthest)",
    ),
    "Back is i - j": ("rows", "(i - j)", "(j - i)"),
    "query row i stands at place mem + i": ("rows", "i = mem + torch", "i = torch"),
    "all of them share row k": ("rows", "k if clamp_len is None else min(k, clamp_len)", "clamp_len"),
    "a remainder wraps": (
        "rows",
        ROWS + "i = torch.arange(mem, mem + query)[:, None]\n"
        "    back = (i - torch.arange(mem + query)).clamp(0, clamp_len)\n    return back % (k + 1)",
    ),
    "the mirror of the past": ("rows", ".clamp(0, farthest)", ".abs().clamp(max=farthest)"),
    "have negative rows": ("rows", ".clamp(0, farthest)", ".clamp(max=farthest)"),
    "the last row is k - 1": (
        "rows",
        "k if clamp_len is None else min(k, clamp_len)",
        "min(k - 1, k if clamp_len is None else clamp_len)",
    ),
    "clamp_len changes nothing": (
        "rows",
        "farthest = k if clamp_len is None else min(k, clamp_len)",
        "farthest = k",
    ),
    "where clamp_len is larger than k": ("rows", "min(k, clamp_len)", "clamp_len"),
    "a clamp_len of 0 is taken for None": ("rows", "k if clamp_len is None else", "k if not clamp_len else"),
    "the axes are swapped": (
        "rows",
        "return (i - j).clamp(0, farthest)",
        "return (i - j).clamp(0, farthest).T",
    ),
    "you returned the shape [": ("rows", ROWS + "return torch.zeros(query, query, dtype=torch.int64)"),
    "the clamp is off by one": ("rows", "min(k, clamp_len)", "min(k, clamp_len - 1)"),
    "it returns a tensor of torch.float32, and a tensor of integers": (
        "rows",
        "return (i - j).clamp(0, farthest)",
        "return (i - j).clamp(0, farthest).float()",
    ),
    # scores
    "right, but not efficient: it builds a vector for each pair. Let q meet": (
        "scores",
        "by_row.gather(-1, rows.expand_as(content))",
        'einsum(q, table[:, rows], "b head query dim, head query key dim -> b head query key")'
        " + bias[:, rows]",
    ),
    "it builds a vector for each pair. Let q meet the table's rows once": (
        "scores",
        "    return (content",
        "    met = [(q[:, :, i, None] * (k + table[:, rows[i]])).sum(-1) for i in range(query)]\n"
        "    return (torch.stack(met, dim=2) + bias[:, rows]) / sqrt(q.shape[-1])\n    return (content",
    ),
    "this is i - j, and the row is clip(j - i)": (
        "scores",
        "(torch.arange(key) - i)",
        "(i - torch.arange(key))",
    ),
    "query 0 stands at place key - query": (
        "scores",
        "torch.arange(key - query, key)",
        "torch.arange(query)",
    ),
    "clip first, then add c": (
        "scores",
        "(torch.arange(key) - i).clamp(-clip, clip) + clip",
        "(torch.arange(key) - i + clip).clamp(0, clip)",
    ),
    "the distance term is not divided": (
        "scores",
        "(content + by_row.gather(-1, rows.expand_as(content))) / sqrt(q.shape[-1])",
        "content / sqrt(q.shape[-1]) + by_row.gather(-1, rows.expand_as(content))",
    ),
    "the bias is not divided": (
        "scores",
        'rearrange(bias, "head row -> head 1 row")',
        'rearrange(bias, "head row -> head 1 row") * sqrt(q.shape[-1])',
    ),
    "divided by d_head, where": ("scores", "sqrt(q.shape[-1])", "q.shape[-1]"),
    "the division by √d_head is missing": ("scores", " / sqrt(q.shape[-1])", ""),
    "the bias is missing": (
        "scores",
        '    by_row = by_row + rearrange(bias, "head row -> head 1 row")\n',
        "",
    ),
    "the vectors of distance are missing": (
        "scores",
        "by_row = by_row + ",
        "by_row = torch.zeros_like(by_row) + ",
    ),
    "the product of q and k is missing": ("scores", "(content + by_row", "(by_row"),
    "the key meets the table here": (
        "scores",
        (
            "(content + by_row.gather",
            "(content + met.transpose(2, 3).gather(2, rows.expand_as(content)) + by_row.gather",
        ),
        (
            'by_row = einsum(q, table, "batch head query dim, head row dim -> batch head query row")',
            'met = einsum(k, table, "b head key dim, head row dim -> b head key row")\n'
            "    by_row = q.new_zeros(*q.shape[:3], table.shape[1])",
        ),
    ),
    "all heads read the table of head 0": (
        "scores",
        'einsum(q, table, "batch head query dim, head row dim',
        'einsum(q, table[0], "batch head query dim, row dim',
    ),
    "softmax has been taken already": (
        "scores",
        ("return (", "return (("),
        ("/ sqrt(q.shape[-1])", "/ sqrt(q.shape[-1])).softmax(-1)"),
    ),
    "and the table has rows 0 to": ("scores", ".clamp(-clip, clip) + clip", " + clip"),
    # collect
    ", and the table has rows 0 to": (
        "collect",
        "(*weights.shape[:-1], len(table))",
        "(*weights.shape[:-1], 2)",
    ),
    "right, but not efficient: it builds a vector for each pair. Add": (
        "collect",
        COLLECT + "vectors = table[rows.clamp(min=0)] * (rows >= 0)[..., None]\n"
        '    distance = einsum(weights, vectors, "b head i j, b i j dim -> b head i dim")\n'
        "    return weights @ v + distance",
    ),
    "it builds a vector for each pair. Add the weights up by row first": (
        "collect",
        COLLECT + "wide, found = torch.cat([table, 0 * table[:1]]), []\n"
        "    for share, row in zip(weights.unbind(2), rows.unbind(1)):\n"
        "        share = share[:, :, None]\n"
        "        found.append(share @ v + share @ wide[row][:, None])\n"
        "    return torch.cat(found, dim=2)",
    ),
    "the value term is lost: the vectors": (
        "collect",
        'return content + einsum(by_row, table, "batch head query row, row dim -> batch head query dim")',
        "return content",
    ),
    "the values are lost": ("collect", "return content + ", "return "),
    "so their weights must add up": ("collect", "scatter_add", "scatter"),
    "the rows are moved on by one": (
        "collect",
        COLLECT + "ones = torch.nn.functional.one_hot(rows + 1, len(table) + 1)[..., :-1].to(weights.dtype)\n"
        '    by_row = einsum(weights, ones, "b head i j, b i j row -> b head i row")\n'
        "    return weights @ v + by_row @ table",
    ),
    "read as the last row of the table": (
        "collect",
        (MASKED, "    index = index % len(table)\n"),
        (ADDED, "by_row.scatter_add(-1, index, weights)"),
    ),
    "row -1 is read as row 0": ("collect", (MASKED, ""), ("placed)", "weights)")),
    "lose their value, too": ("collect", "content = einsum(weights", "content = einsum(placed"),
    "made to sum to 1": (
        "collect",
        MASKED,
        MASKED + "    placed = placed / placed.sum(dim=-1, keepdim=True)\n",
    ),
    "all texts read the rows of text 0": (
        "collect",
        'rearrange(rows, "batch query key -> batch 1 query key")',
        "rows[0]",
    ),
    "the weights of the heads are averaged": (
        "collect",
        ADDED,
        ADDED + "\n    by_row = by_row.mean(dim=1, keepdim=True).expand_as(by_row)",
    ),
    "are counted, and their weights": (
        "collect",
        "placed = weights.masked_fill",
        "placed = (weights * 0 + 1).masked_fill",
    ),
    "weights was changed in place": (
        "collect",
        MASKED,
        "    placed = weights\n    placed[index < 0] = 0.0\n",
    ),
    # layer
    "v_j, too, gets the vector": (
        "layer",
        '    z = z + einsum(by_row, tables["v"], "batch head query row, row dim -> batch head query dim")\n',
        "",
    ),
    "k_j, too, gets the vector": (
        "layer",
        "scores = content + distance.gather(-1, rows.expand_as(content))",
        "scores = content",
    ),
    "one table serves keys and values": ("layer", 'by_row, tables["v"]', 'by_row, tables["k"]'),
    "the tables have changed places": (
        "layer",
        ('q, tables["k"]', 'q, tables["v"]'),
        ('by_row, tables["v"]', 'by_row, tables["k"]'),
    ),
    "the tables are read from the other end": (
        "layer",
        'rows = back.clamp(0, len(tables["k"]) - 1)',
        'rows = len(tables["k"]) - 1 - back.clamp(0, len(tables["k"]) - 1)',
    ),
    "the key term is not divided": (
        "layer",
        ("scores = content +", "scores = content / sqrt(q.shape[-1]) +"),
        ("weights = (scores / sqrt(q.shape[-1]))", "weights = scores"),
    ),
    "division by √d_head is missing": ("layer", "scores / sqrt(q.shape[-1])", "scores"),
    "d_head, where its root is asked for": ("layer", "sqrt(q.shape[-1])", "q.shape[-1]"),
    "divided by the root of the model's width": ("layer", "sqrt(q.shape[-1])", "sqrt(x.shape[-1])"),
    "keys of row 0 lose their vector": ("collect", "index < 0", "index <= 0"),
    "in rows and mask": ("layer", "torch.arange(key - query, key)", "torch.arange(query)"),
    "the rows count the queries from 0": (
        "layer",
        "rows = back.clamp",
        "rows = (torch.arange(query)[:, None] - torch.arange(key)).clamp",
    ),
    "the mask counts the queries from 0": (
        "layer",
        "seen = (back >= 0)",
        "seen = torch.ones(query, key).tril().bool()",
    ),
    "behind a memory, the diagonal of tril is mem": (
        "layer",
        ("seen = (back >= 0) & (back <", "ahead = back - key + query\n    seen = (ahead >= 0) & (ahead <"),
        ('float("-inf")', "-1e9"),
    ),
    "the mask comes after the softmax": (
        "layer",
        '.masked_fill(~seen, float("-inf")).softmax(dim=-1)',
        ".softmax(dim=-1) * seen",
    ),
    "hidden scores are set to 0": ("layer", 'float("-inf")', "0.0"),
    "the heads are dealt out in turn": ("layer", "(head dim)", "(dim head)"),
    "as (dim head) does": (
        "layer",
        "batch query (head dim)",
        "batch query (dim head)",
    ),
    "head 0 has the first d_head numbers": ("layer", "batch pos (head dim)", "batch pos (dim head)"),
    "keys more than k back are hidden": (
        "layer",
        "(back < (window or key))",
        '(back < (window or key)) & (back < len(tables["k"]))',
    ),
    "the future is seen": ("layer", "(back >= 0) & ", ""),
    "hides each query's own key": ("layer", "back >= 0", "back > 0"),
    "one key too wide": ("layer", "back < (window", "back <= (window"),
    "the window hides nothing": ("layer", " & (back < (window or key))", ""),
    "the memory is not read": ("layer", "x if memory is None else torch.cat([memory, x], dim=1)", "x"),
    "several keys share the last row": ("layer", "scatter_add", "scatter"),
    "the heads are not side by side": (
        "layer",
        'rearrange(z, "batch head query dim -> batch query (head dim)")',
        "z.reshape(x.shape[0], query, -1)",
    ),
    "W_o is missing": ("layer", ' @ W["o"]', ""),
    "all queries have the mask of the last": (
        "layer",
        "    weights =",
        "    seen = seen[-1:]\n    weights =",
    ),
    # numbers
    "the heads share the tables": ("numbers", "2 * (2 * k + 1) * d_head", "8 * 2 * (2 * k + 1) * d_head"),
    "there is a table for keys and one for values": (
        "numbers",
        "2 * (2 * k + 1) * d_head",
        "(2 * k + 1) * d_head",
    ),
    "k back, k ahead, and one": ("numbers", "2 * (2 * k + 1) * d_head", "2 * 2 * k * d_head"),
    "half of the table is never used": ("numbers", "2 * (2 * k + 1) * d_head", "2 * (k + 1) * d_head"),
    "the farthest is L + M - 1": ("numbers", '"trained": L + M', '"trained": k + 1'),
    "much of the past never occurs": ("numbers", '"trained": L + M', '"trained": 2 * k + 1'),
    "0 to L + M - 1": ("numbers", '"trained": L + M', '"trained": L + M - 1'),
    "its rows get no gradient": ("numbers", '"trained": L + M', '"trained": 2 * (L + M) - 1'),
    "keys in memory are seen, too": ("numbers", '"trained": L + M', '"trained": L'),
    "includes k itself": ("numbers", "T + i - k + 1", "T + i - k"),
    "has one more far key": ("numbers", "T + i - k + 1", "T - k + 1"),
    "only the last query sees all": ("numbers", "T + i - k + 1", "T + L - k"),
    "sum over all L": ("numbers", "sum(T + i - k + 1 for i in range(L))", "T + L - k"),
    "leave out those": ("numbers", "T + i - k + 1", "T + i + 1"),
}
