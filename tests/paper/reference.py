"""The definition: the language model in numpy, one number at a time, as the papers write it.

Slow on purpose. A vector is a row of an array, ``h`` holds one row for each token of
[memory ∘ segment], and i and j count along it: i is the token that asks, a query, and j
one that it may look at, a key. Parameters go by the model's own names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import erf, exp, log, sqrt

import numpy as np

from minitxl.config import ModelConfig

Array = np.ndarray
Parameters = dict[str, Array]


@dataclass(frozen=True)
class Options:
    """What a query uses of its context, in one row of a batch."""

    window: int | None
    clamp_len: int | None
    key_mask: Array | None

    def sees(self, i: int, j: int) -> bool:
        near = j <= i and (self.window is None or i - j < self.window)
        return near and (self.key_mask is None or bool(self.key_mask[j]))

    def distance(self, i: int, j: int) -> int:
        return i - j if self.clamp_len is None else min(i - j, self.clamp_len)


def forward(
    parameters: Parameters,
    config: ModelConfig,
    tokens: Array,
    memory: Array | None = None,
    *,
    window: int | None = None,
    clamp_len: int | None = None,
    key_mask: Array | None = None,
) -> tuple[Array, Array]:
    """``log_probs`` [batch seg vocab] and ``states`` [layer batch seg model], float64."""
    if memory is None:
        memory = np.zeros((config.n_layer, len(tokens), 0, config.d_model))
    clamp_len = config.clamp_len if clamp_len is None else clamp_len
    log_probs, states = [], []
    for b in range(len(tokens)):  # rows of a batch know nothing of each other
        options = Options(window, clamp_len, None if key_mask is None else key_mask[b])
        of_row, states_of_row = forward_row(parameters, config, tokens[b], memory[:, b], options)
        log_probs.append(of_row)
        states.append(states_of_row)
    return np.stack(log_probs), np.stack(states, axis=1)


def forward_row(
    p: Parameters, config: ModelConfig, tokens: Array, memory: Array, options: Options
) -> tuple[Array, Array]:
    """√d_model E[token], layer by layer, then the vocabulary; and what each layer read."""
    x = np.stack([sqrt(config.d_model) * embed(p, config, token) for token in tokens])
    states = []
    for n in range(config.n_layer):
        x = np.stack([x[i] + absolute_position(p, config, layer=n, place=i) for i in range(len(x))])
        states.append(x)
        x = block(p, config, n, x, memory[n], options)
    if config.norm == "pre" and config.final_norm:
        x = np.stack([layer_norm(x_i, within(p, "final_norm")) for x_i in x])
    return np.stack([vocabulary(p, config, x_i) for x_i in x]), np.stack(states)


def remember(memory: Array | None, states: Array, mem_len: int) -> Array:
    """The last ``mem_len`` tokens of all that each layer has read."""
    seen = states if memory is None else np.concatenate([memory, states], axis=2)
    return seen[:, :, max(0, seen.shape[2] - mem_len) :]


# Positions (Vaswani et al., section 3.5; Al-Rfou et al. add learned ones at each layer)


@cache  # each of the many sums asks for the same few
def sinusoid(position: float, d_model: int) -> Array:
    """sin(position / 10000^(2m / d_model)) for each m, then the cosines."""
    angles = [position / 10000 ** (2 * m / d_model) for m in range(d_model // 2)]
    return np.array([np.sin(angle) for angle in angles] + [np.cos(angle) for angle in angles])


def absolute_position(p: Parameters, config: ModelConfig, *, layer: int, place: int) -> Array:
    """U_place; the first token of a segment has place 0, whatever its memory."""
    if config.attention == "absolute" and config.positions == "sinusoidal" and layer == 0:
        return sinusoid(place, config.d_model)
    if f"positions.{layer}.weight" in p:
        return p[f"positions.{layer}.weight"][place]
    return np.zeros(config.d_model)


# A layer


def block(p: Parameters, config: ModelConfig, n: int, x: Array, memory: Array, options: Options) -> Array:
    """Post-norm: x + f(x), then normed. Pre-norm: x + f(x normed), and memory normed like x."""
    here = within(p, f"blocks.{n}")
    first, second, inner = (within(here, name) for name in ("norm_attention", "norm_inner", "inner"))
    attention = within(here, "attention")
    if config.share_biases:
        for name in {"xl": ("u", "v"), "t5": ("table",)}.get(config.attention, ()):
            attention[name] = p[f"blocks.0.attention.{name}"]
    attend = ATTENTIONS[config.attention]
    h, mem = np.concatenate([memory, x]), len(memory)
    if config.norm == "pre":
        x = x + attend(attention, config, np.stack([layer_norm(h_j, first) for h_j in h]), mem, options)
        return np.stack([x_i + feed_forward(inner, config, layer_norm(x_i, second)) for x_i in x])
    x = np.stack([layer_norm(x_i, first) for x_i in x + attend(attention, config, h, mem, options)])
    return np.stack([layer_norm(x_i + feed_forward(inner, config, x_i), second) for x_i in x])


def layer_norm(x: Array, p: Parameters) -> Array:
    mean = sum(x) / len(x)
    variance = sum((entry - mean) ** 2 for entry in x) / len(x)
    return (x - mean) / sqrt(variance + 1e-5) * p["weight"] + p["bias"]


def feed_forward(p: Parameters, config: ModelConfig, x: Array) -> Array:
    """W_2 f(W_1 x + b_1) + b_2."""
    f = {"relu": relu, "gelu": gelu}[config.activation]
    inner = np.array([f(entry) for entry in p["0.weight"] @ x + p["0.bias"]])
    return p["3.weight"] @ inner + p["3.bias"]


def relu(x: float) -> float:
    return max(0.0, x)


def gelu(x: float) -> float:
    """x Φ(x), with the error function and not with its approximation by tanh."""
    return x * (1 + erf(x / sqrt(2))) / 2


# Attention


def attend_absolute(p: Parameters, config: ModelConfig, h: Array, mem: int, options: Options) -> Array:
    """e_ij = (W_q h_i) · (W_k h_j) / √d_head,  z_i = Σ_j α_ij W_v h_j (Vaswani et al., equation 1)."""

    def energy(head: int, i: int, j: int) -> float:
        W_q, W_k = (of_head(p[f"{name}.weight"], head, config) for name in ("W_q", "W_k"))
        return (W_q @ h[i]) @ (W_k @ h[j]) / sqrt(config.d_head)

    def value(head: int, i: int, j: int) -> Array:
        return of_head(p["W_v.weight"], head, config) @ h[j]

    return multi_head(p, config, h, mem, options, energy, value)


def attend_shaw(p: Parameters, config: ModelConfig, h: Array, mem: int, options: Options) -> Array:
    """e_ij = x_i W_q (x_j W_k + a^K_ij)ᵀ / √d_head,  z_i = Σ_j α_ij (x_j W_v + a^V_ij),

    a_ij = w[clip(j - i, -k, k)], and all heads have the same (Shaw et al., equations 3 and 4).
    """

    def row(i: int, j: int) -> int:
        k = config.max_distance
        return max(-k, min(k, -options.distance(i, j))) + k  # w[-k] is row 0

    def energy(head: int, i: int, j: int) -> float:
        W_q, W_k = (of_head(p[f"{name}.weight"], head, config) for name in ("W_q", "W_k"))
        return (W_q @ h[i]) @ (W_k @ h[j] + p["a_K"][row(i, j)]) / sqrt(config.d_head)

    def value(head: int, i: int, j: int) -> Array:
        return of_head(p["W_v.weight"], head, config) @ h[j] + p["a_V"][row(i, j)]

    return multi_head(p, config, h, mem, options, energy, value)


def attend_xl(p: Parameters, config: ModelConfig, h: Array, mem: int, options: Options) -> Array:
    """e_ij = [(a) q·k + (b) q·r + (c) u·k + (d) v·r] / √d_head with q = W_q h_i, k = W_kE h_j,

    r = W_kR R_{i-j}, and z_i = Σ_j α_ij W_v h_j (Dai et al., section 3.3).
    """

    def energy(head: int, i: int, j: int) -> float:
        W_q, W_kE, W_kR = (of_head(p[f"{name}.weight"], head, config) for name in ("W_q", "W_kE", "W_kR"))
        u, v = p["u"][head], p["v"][head]
        q, k, r = W_q @ h[i], W_kE @ h[j], W_kR @ sinusoid(options.distance(i, j), config.d_model)
        return (q @ k + q @ r + u @ k + v @ r) / sqrt(config.d_head)

    def value(head: int, i: int, j: int) -> Array:
        return of_head(p["W_v.weight"], head, config) @ h[j]

    return multi_head(p, config, h, mem, options, energy, value)


def attend_rotary(p: Parameters, config: ModelConfig, h: Array, mem: int, options: Options) -> Array:
    """e_ij = Re[Σ_m q_m k*_m exp(i (i - j) ω_m)] / √d_head with complex q_m, k_m (Su et al., equation 12).

    The real part of number m is coordinate m of the head, the imaginary part coordinate m + d_head/2.
    """
    half = config.d_head // 2

    def complex_of(vector: Array) -> Array:
        return vector[:half] + 1j * vector[half:]

    def energy(head: int, i: int, j: int) -> float:
        W_q, W_k = (of_head(p[f"{name}.weight"], head, config) for name in ("W_q", "W_k"))
        q, k = complex_of(W_q @ h[i]), complex_of(W_k @ h[j])
        turns = [np.exp(1j * options.distance(i, j) / 10000 ** (2 * m / config.d_head)) for m in range(half)]
        return sum(q[m] * k[m].conjugate() * turns[m] for m in range(half)).real / sqrt(config.d_head)

    def value(head: int, i: int, j: int) -> Array:
        return of_head(p["W_v.weight"], head, config) @ h[j]

    return multi_head(p, config, h, mem, options, energy, value)


def attend_alibi(p: Parameters, config: ModelConfig, h: Array, mem: int, options: Options) -> Array:
    """e_ij = q·k / √d_head - m (i - j), where m begins at 2^(-8/n) and falls by that factor.

    For heads whose number is a power of two (Press et al., section 3).
    """
    assert config.n_head in (1, 2, 4, 8)

    def energy(head: int, i: int, j: int) -> float:
        W_q, W_k = (of_head(p[f"{name}.weight"], head, config) for name in ("W_q", "W_k"))
        slope = (2 ** (-8 / config.n_head)) ** (head + 1)
        return (W_q @ h[i]) @ (W_k @ h[j]) / sqrt(config.d_head) - slope * options.distance(i, j)

    def value(head: int, i: int, j: int) -> Array:
        return of_head(p["W_v.weight"], head, config) @ h[j]

    return multi_head(p, config, h, mem, options, energy, value)


def attend_t5(p: Parameters, config: ModelConfig, h: Array, mem: int, options: Options) -> Array:
    """e_ij = q·k / √d_head + b of the bucket of i - j (Raffel et al., section 2.1).

    A distance below half the buckets is its own bucket. The others are the first whose lower edge, on
    a scale of logarithms from there to ``bucket_distance``, isn't above the distance.
    """

    def bucket(distance: int) -> int:
        exact = config.n_bucket // 2
        wide = config.n_bucket - exact
        edges = [exact * (config.bucket_distance / exact) ** (n / wide) for n in range(wide)]
        return distance if distance < exact else exact + sum(edge <= distance for edge in edges) - 1

    def energy(head: int, i: int, j: int) -> float:
        W_q, W_k = (of_head(p[f"{name}.weight"], head, config) for name in ("W_q", "W_k"))
        product = (W_q @ h[i]) @ (W_k @ h[j]) / sqrt(config.d_head)
        return product + p["table"][head, bucket(options.distance(i, j))]

    def value(head: int, i: int, j: int) -> Array:
        return of_head(p["W_v.weight"], head, config) @ h[j]

    return multi_head(p, config, h, mem, options, energy, value)


ATTENTIONS = {
    "absolute": attend_absolute,
    "shaw": attend_shaw,
    "xl": attend_xl,
    "rotary": attend_rotary,
    "alibi": attend_alibi,
    "t5": attend_t5,
}


def multi_head(
    p: Parameters,
    config: ModelConfig,
    h: Array,
    mem: int,
    options: Options,
    energy: Callable,
    value: Callable,
) -> Array:
    """W_o [z of head 0 ‖ z of head 1 ‖ …] for each query; z is zero where it sees no key."""
    outputs = []
    for i in range(mem, len(h)):
        keys = [j for j in range(len(h)) if options.sees(i, j)]
        heads = []
        for head in range(config.n_head):
            alpha = softmax([energy(head, i, j) for j in keys])
            z = np.zeros(config.d_head)
            for weight, j in zip(alpha, keys, strict=True):
                z = z + weight * value(head, i, j)
            heads.append(z)
        outputs.append(p["W_o.weight"] @ np.concatenate(heads))
    return np.stack(outputs)


def of_head(weight: Array, head: int, config: ModelConfig) -> Array:
    """The rows of a projection [heads · d_head, d_model] that make one head's vectors."""
    return weight[head * config.d_head : (head + 1) * config.d_head]


def softmax(energies: list[float]) -> list[float]:
    powers = [exp(energy - max(energies)) for energy in energies]
    return [power / sum(powers) for power in powers]


# Words: embedding and softmax, in clusters where there are cutoffs (Grave et al. 2017)


def embed(p: Parameters, config: ModelConfig, word: int) -> Array:
    """E[word], through its cluster's projection where the widths differ."""
    table, row = place_of(config, word)
    vector = p[f"embedding.tables.{table}.weight"][row]
    return p[f"embedding.projections.{table}.weight"] @ vector if projected(config) else vector


def vocabulary(p: Parameters, config: ModelConfig, x: Array) -> Array:
    """log p(word) in the shortlist; log p(cluster) + log p(word | cluster) behind it."""
    edges = (0, *config.cutoffs, config.vocab_size)
    log_probs = np.zeros(config.vocab_size)
    for cluster, (low, high) in enumerate(pairwise(edges)):
        read = x
        if projected(config):
            tied = config.tie_projections and config.tie_projections[cluster]
            table = cluster if config.div_val > 1 else 0
            name = f"embedding.projections.{table}" if tied else f"output.projections.{cluster}"
            read = p[f"{name}.weight"].T @ x
        logits = []
        for word in range(low, high):
            table, row = place_of(config, word)
            owner = "embedding" if config.tie_embeddings else "output"
            E_word = p[f"{owner}.tables.{table}.weight"][row]
            logits.append(E_word @ read + p[f"output.tables.{table}.bias"][row])
        if cluster == 0:
            for tail in range(len(config.cutoffs)):
                logits.append(
                    p["output.tail_classes.weight"][tail] @ read + p["output.tail_classes.bias"][tail]
                )
            first = log_softmax(logits)
            log_probs[:high] = first[:high]
        else:
            log_probs[low:high] = first[edges[1] + cluster - 1] + log_softmax(logits)
    return log_probs


def projected(config: ModelConfig) -> bool:
    return config.div_val > 1 or config.d_embed not in (None, config.d_model)


def place_of(config: ModelConfig, word: int) -> tuple[int, int]:
    """Table and row of a word: a table for each cluster, or one where all are of one width."""
    starts = (0, *config.cutoffs) if config.div_val > 1 else (0,)
    table = max(i for i, start in enumerate(starts) if start <= word)
    return table, word - starts[table]


def log_softmax(logits: list[float]) -> Array:
    total = sum(exp(logit - max(logits)) for logit in logits)
    return np.array([logit - max(logits) - log(total) for logit in logits])


def within(p: Parameters, name: str) -> Parameters:
    """The parameters of one part, by their names inside it."""
    return {key[len(name) + 1 :]: value for key, value in p.items() if key.startswith(name + ".")}
