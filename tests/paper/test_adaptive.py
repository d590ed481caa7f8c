from math import exp, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from minitxl.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from minitxl.course.checker import Largest

VOCAB, CUTOFFS = 12, (3, 5, 9)
WIDTHS = [(8, 8, 1), (6, 8, 1), (8, 8, 2), (9, 8, 2)]  # d_embed, d_model, div_val
every_width = pytest.mark.parametrize(("d_embed", "d_model", "div_val"), WIDTHS)


def pair(vocab=VOCAB, d_embed=8, d_model=8, cutoffs=CUTOFFS, div_val=1):
    """Embedding and softmax in float64, weights large enough that no distribution is flat."""
    torch.manual_seed(0)
    kinds = AdaptiveEmbedding, AdaptiveSoftmax
    both = [kind(vocab, d_embed, d_model, cutoffs=cutoffs, div_val=div_val).double() for kind in kinds]
    for module in both:
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter)
    return both


def some(batch, seg, d_model, vocab, seed=0):
    """Hidden states and targets."""
    source = torch.Generator().manual_seed(seed)
    hidden = torch.randn(batch, seg, d_model, generator=source, dtype=torch.float64)
    return hidden, torch.randint(vocab, (batch, seg), generator=source)


@st.composite
def shapes(draw):
    vocab = draw(st.integers(1, 14))
    most = min(3, vocab - 1)
    cutoffs = tuple(sorted(draw(st.sets(st.integers(1, max(1, vocab - 1)), max_size=most))))
    div_val = draw(st.integers(1, 3))
    d_embed = div_val ** len(cutoffs) + draw(st.integers(0, 4))
    d_model = draw(st.just(d_embed) | st.integers(1, 6))
    return {
        "vocab": vocab,
        "d_embed": d_embed,
        "d_model": d_model,
        "cutoffs": cutoffs,
        "div_val": div_val,
    }


def place(token, shape):
    """Cluster of a token, its first token, and where in the tables the token is: (table, row)."""
    cluster = sum(token >= cutoff for cutoff in shape["cutoffs"])
    first = (0, *shape["cutoffs"])[cluster]
    return cluster, first, (0, token) if shape["div_val"] == 1 else (cluster, token - first)


def log_softmax_by_hand(logits):
    total = sum(exp(logit) for logit in logits)
    return [logit - log(total) for logit in logits]


def log_probs_by_hand(softmax, hidden, shape):
    """One position, one word at a time: log p(cluster) + log p(word | cluster)."""
    ends = (*shape["cutoffs"], shape["vocab"])

    def read_for(cluster):
        """The hidden state as this cluster sees it: W^T h."""
        return hidden @ softmax.projections[cluster].weight if len(softmax.projections) else hidden

    def logit(token):
        cluster, _, (table, row) = place(token, shape)
        layer = softmax.tables[table]
        return (layer.weight[row] @ read_for(cluster) + layer.bias[row]).item()

    head = [logit(token) for token in range(ends[0])]
    for tail in range(1, len(ends)):
        row = tail - 1
        head.append((softmax.tail_classes.weight[row] @ read_for(0) + softmax.tail_classes.bias[row]).item())
    head = log_softmax_by_hand(head)
    words = head[: ends[0]]
    for tail in range(1, len(ends)):
        inside = log_softmax_by_hand([logit(token) for token in range(ends[tail - 1], ends[tail])])
        words += [head[ends[0] + tail - 1] + log_prob for log_prob in inside]
    return torch.tensor(words, dtype=torch.float64)


def chosen(log_probs, targets):
    return log_probs.gather(2, targets[..., None])[..., 0]


@given(shape=shapes(), batch=st.integers(1, 3), seg=st.integers(1, 6))
def test_the_embedding_is_each_tokens_row_through_its_clusters_projection(shape, batch, seg):
    embedding, _ = pair(**shape)
    _, tokens = some(batch, seg, 1, shape["vocab"])
    found = embedding(tokens)
    assert found.shape == (batch, seg, shape["d_model"])
    for b in range(batch):
        for t in range(seg):
            _, _, (table, row) = place(tokens[b, t].item(), shape)
            expected = embedding.tables[table].weight[row]
            if shape["div_val"] > 1 or shape["d_embed"] != shape["d_model"]:
                expected = embedding.projections[table].weight @ expected
            torch.testing.assert_close(found[b, t], expected, rtol=0, atol=1e-12)


@given(shape=shapes(), batch=st.integers(1, 2), seg=st.integers(1, 2))
def test_log_probabilities_are_those_of_the_definition(shape, batch, seg):
    _, softmax = pair(**shape)
    hidden, _ = some(batch, seg, shape["d_model"], shape["vocab"])
    found = softmax.log_probs(hidden)
    for b in range(batch):
        for t in range(seg):
            expected = log_probs_by_hand(softmax, hidden[b, t], shape)
            torch.testing.assert_close(found[b, t], expected, rtol=1e-12, atol=1e-12)


@given(shape=shapes(), batch=st.integers(1, 3), seg=st.integers(1, 8))
def test_log_probabilities_are_normalised_and_the_losses_are_theirs_in_token_order(shape, batch, seg):
    _, softmax = pair(**shape)
    hidden, targets = some(batch, seg, shape["d_model"], shape["vocab"])
    log_probs, losses = softmax.log_probs(hidden), softmax.losses(hidden, targets)
    assert log_probs.shape == (batch, seg, shape["vocab"])
    torch.testing.assert_close(log_probs.exp().sum(2), torch.ones(batch, seg).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(losses, -chosen(log_probs, targets), rtol=1e-12, atol=1e-12)


@given(shape=shapes())
def test_gradients_of_the_losses_are_those_of_the_log_probabilities(shape):
    _, softmax = pair(**shape)
    hidden, targets = some(2, 5, shape["d_model"], shape["vocab"])
    inputs = [hidden.requires_grad_(), *softmax.parameters()]
    found = torch.autograd.grad(softmax.losses(hidden, targets).sum(), inputs)
    expected = torch.autograd.grad(-chosen(softmax.log_probs(hidden), targets).sum(), inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_without_cutoffs_both_are_the_ordinary_embedding_and_softmax():
    embedding, softmax = pair(cutoffs=())
    hidden, targets = some(2, 5, 8, VOCAB)
    assert not len(embedding.projections)
    assert not len(softmax.projections)
    assert softmax.tail_classes is None
    assert torch.equal(embedding(targets), embedding.tables[0](targets))
    logits = softmax.tables[0](hidden)
    expected = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").unflatten(0, (2, 5))
    torch.testing.assert_close(softmax.losses(hidden, targets), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(softmax.log_probs(hidden), logits.log_softmax(2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("div_val", [1, 2])
def test_torchs_own_adaptive_softmax_gives_the_same(div_val):
    """Torch's has no projection in its head, here the identity, and no biases in its tails."""
    _, ours = pair(div_val=div_val)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(
        8, VOCAB, [*CUTOFFS], div_value=div_val, head_bias=True
    ).double()
    edges = [*CUTOFFS, VOCAB]
    with torch.no_grad():
        if div_val == 1:
            ours.tables[0].bias[3:] = 0
            weights = [ours.tables[0].weight[low:high] for low, high in zip([0, *edges], edges, strict=False)]
            down = [torch.eye(8)] * 4
        else:
            ours.projections[0].weight.copy_(torch.eye(8))
            for table in ours.tables[1:]:
                table.bias.zero_()
            weights = [table.weight for table in ours.tables]
            down = [projection.weight.T for projection in ours.projections]
        theirs.head.weight.copy_(torch.cat([weights[0], ours.tail_classes.weight]))
        theirs.head.bias.copy_(torch.cat([ours.tables[0].bias[:3], ours.tail_classes.bias]))
        for i, (narrow, words) in enumerate(theirs.tail, start=1):
            narrow.weight.copy_(down[i])
            words.weight.copy_(weights[i])
    hidden, targets = some(2, 40, 8, VOCAB)
    expected = theirs.log_prob(hidden.flatten(0, 1)).unflatten(0, (2, 40))
    torch.testing.assert_close(ours.log_probs(hidden), expected, rtol=0, atol=1e-12)
    expected = theirs(hidden.flatten(0, 1), targets.flatten()).output.unflatten(0, (2, 40))
    torch.testing.assert_close(ours.losses(hidden, targets), -expected, rtol=0, atol=1e-12)


@every_width
def test_permuting_the_tokens_permutes_vectors_and_losses(d_embed, d_model, div_val):
    embedding, softmax = pair(d_embed=d_embed, d_model=d_model, div_val=div_val)
    tokens = torch.tensor([[11, 0, 5, 3, 9, 1, 4, 8, 2, 10, 6, 7]])  # clusters interleave
    hidden, _ = some(1, 12, d_model, VOCAB)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(embedding(tokens[:, order]), embedding(tokens)[:, order], rtol=0, atol=1e-12)
    losses, permuted = softmax.losses(hidden, tokens), softmax.losses(hidden[:, order], tokens[:, order])
    torch.testing.assert_close(permuted, losses[:, order], rtol=0, atol=1e-12)
    assert losses.unique().numel() == 12


@every_width
@pytest.mark.parametrize("tokens", [[[0, 1]], [[4, 3]], [[0], [11]], [[]]])
def test_a_cluster_without_tokens_has_gradient_zero_and_not_none(tokens, d_embed, d_model, div_val):
    embedding, softmax = pair(d_embed=d_embed, d_model=d_model, div_val=div_val)
    tokens = torch.tensor(tokens, dtype=torch.int64)
    losses = softmax.losses(embedding(tokens), tokens)
    assert losses.shape == tokens.shape
    losses.sum().backward()
    for module in (embedding, softmax):
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


@every_width
def test_the_losses_never_build_a_row_of_the_vocabulary_for_each_token(d_embed, d_model, div_val):
    _, softmax = pair(vocab=400, cutoffs=(20, 40, 200), d_embed=d_embed, d_model=d_model, div_val=div_val)
    hidden, _ = some(4, 50, d_model, 400)
    targets = torch.randint(20, (4, 50))
    targets[:, ::5] = torch.arange(20, 400, 10)[:10]
    targets[:, 1::5] = torch.arange(20, 400, 20)[:10]
    with Largest() as of_losses:
        softmax.losses(hidden.requires_grad_(), targets).sum().backward()
    with Largest() as of_log_probs:
        softmax.log_probs(hidden)
    assert of_log_probs.numbers == 200 * 400
    assert of_losses.numbers < 200 * 400 / 5


@every_width
def test_tables_and_projections_have_the_shapes_of_their_clusters(d_embed, d_model, div_val):
    embedding, softmax = pair(d_embed=d_embed, d_model=d_model, div_val=div_val)
    sizes, widths = [3, 2, 4, 3], [d_embed // div_val**i for i in range(4)]
    tables = [(VOCAB, d_embed)] if div_val == 1 else list(zip(sizes, widths, strict=True))
    each = [(d_model, width) for width in widths]
    into = each if div_val > 1 else each[:1] if d_embed != d_model else []
    out = each if div_val > 1 or d_embed != d_model else []
    for module, projections in ((embedding, into), (softmax, out)):
        assert [tuple(table.weight.shape) for table in module.tables] == tables
        assert [tuple(projection.weight.shape) for projection in module.projections] == projections
    assert tuple(softmax.tail_classes.weight.shape) == (3, d_embed)


@every_width
@pytest.mark.parametrize("tables", [True, False])
@pytest.mark.parametrize("flags", [(), (False, True, True, True), (True, False, False, True)])
def test_tying_shares_the_very_parameters_and_both_uses_teach_them(d_embed, d_model, div_val, tables, flags):
    embedding, softmax = pair(d_embed=d_embed, d_model=d_model, div_val=div_val)
    softmax.tie(embedding, tie_tables=tables, tie_projections=flags)
    for mine, theirs in zip(softmax.tables, embedding.tables, strict=True):
        assert (mine.weight is theirs.weight) == tables
        assert mine.bias.shape == (len(mine.weight),)
    shared = list(zip(softmax.tables, embedding.tables, strict=True)) if tables else []
    for i, mine in enumerate(softmax.projections):
        theirs = embedding.projections[0 if div_val == 1 else i]
        tied = bool(flags) and flags[i]
        assert (mine.weight is theirs.weight) == tied
        shared += [(mine, theirs)] if tied else []
    hidden, tokens = some(1, 40, d_model, VOCAB)
    for mine, theirs in shared:
        of_input = torch.autograd.grad(embedding(tokens).square().sum(), mine.weight)[0]
        of_output = torch.autograd.grad(softmax.losses(hidden, tokens).sum(), theirs.weight)[0]
        of_both = softmax.losses(hidden, tokens).sum() + embedding(tokens).square().sum()
        assert of_input.abs().sum() > 0
        assert of_output.abs().sum() > 0
        grad = torch.autograd.grad(of_both, mine.weight)[0]
        torch.testing.assert_close(grad, of_input + of_output, rtol=1e-12, atol=1e-12)


@every_width
def test_a_tied_softmax_still_gives_the_losses_of_the_definition(d_embed, d_model, div_val):
    embedding, softmax = pair(d_embed=d_embed, d_model=d_model, div_val=div_val)
    softmax.tie(embedding, tie_projections=(False, True, True, True))
    hidden, targets = some(1, 6, d_model, VOCAB)
    shape = {"vocab": VOCAB, "cutoffs": CUTOFFS, "div_val": div_val}
    for t, target in enumerate(targets[0].tolist()):
        expected = -log_probs_by_hand(softmax, hidden[0, t], shape)[target]
        torch.testing.assert_close(softmax.losses(hidden, targets)[0, t], expected, rtol=1e-12, atol=1e-12)


def test_row_i_minus_1_of_tail_classes_belongs_to_tail_cluster_i():
    _, softmax = pair()
    hidden = torch.zeros(1, VOCAB, 8, dtype=torch.float64)
    with torch.no_grad():
        softmax.tail_classes.bias.copy_(torch.tensor([100.0, 0.0, -100.0]))
        log_probs = softmax.log_probs(hidden)[0, 0]
    mass = [log_probs[low:high].logsumexp(0).item() for low, high in ((3, 5), (5, 9), (9, 12))]
    assert mass == pytest.approx([0, -100, -200], abs=1e-6)


def test_reversing_the_rows_of_tail_classes_changes_the_losses_of_tails_alone():
    _, softmax = pair(div_val=2)
    hidden, _ = some(1, VOCAB, 8, VOCAB)
    targets = torch.arange(VOCAB)[None]
    before = softmax.losses(hidden, targets)
    with torch.no_grad():
        for parameter in softmax.tail_classes.parameters():
            parameter.copy_(parameter.flip(0))
    change = (softmax.losses(hidden, targets) - before).abs()[0]
    torch.testing.assert_close(change[:3], torch.zeros(3).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(change[5:9], torch.zeros(4).double(), rtol=0, atol=1e-12)  # the middle one
    assert torch.cat([change[3:5], change[9:]]).min() > 1e-3


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("kind", [AdaptiveEmbedding, AdaptiveSoftmax])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cutoffs": (3, 3)}, r"cutoffs must strictly increase inside 1 … vocab_size - 1 = 11, got \(3, 3\)"),
        ({"cutoffs": (5, 3)}, r"cutoffs must strictly increase .* got \(5, 3\)"),
        ({"cutoffs": (0, 3)}, r"cutoffs must strictly increase .* got \(0, 3\)"),
        ({"cutoffs": (3, 12)}, r"cutoffs must strictly increase .* got \(3, 12\)"),
        ({"div_val": 0}, "div_val must be 1 or more, got 0"),
        (
            {"div_val": 3, "d_embed": 26},
            r"d_embed \(or d_model in its place\) must be 27 or more, "
            "for the last cluster to be 1 wide or more with div_val = 3, got 26",
        ),
        ({"d_embed": 0}, "d_embed must be 1 or more, got 0"),
        ({"d_model": 0}, "d_model must be 1 or more, got 0"),
        ({"vocab_size": 0, "cutoffs": ()}, "vocab_size must be 1 or more, got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**{"vocab_size": VOCAB, "d_embed": 8, "d_model": 8, "cutoffs": CUTOFFS, **settings})


@pytest.mark.usefixtures("as_users_run_it")
def test_tying_what_does_not_fit_is_refused():
    embedding, softmax = pair()
    with pytest.raises(ValueError, match=r"one flag for each of the 4 clusters, got \(True, True\)"):
        softmax.tie(embedding, tie_projections=(True, True))
    with pytest.raises(ValueError, match=r"embedding must be cut as .*div_val=1.*, got .*div_val=2"):
        softmax.tie(pair(div_val=2)[0])
    assert softmax.tables[0].weight is not embedding.tables[0].weight


@pytest.mark.usefixtures("as_users_run_it")
def test_targets_that_do_not_fit_the_hidden_states_are_refused():
    _, softmax = pair()
    hidden, targets = some(2, 3, 8, VOCAB)
    for wrong in (targets[:1], targets[:, :2], targets.T):
        with pytest.raises(ValueError, match=r"one id for each token of hidden, got .* for \(2, 3\)"):
            softmax.losses(hidden, wrong)


@pytest.mark.parametrize("outside", [-100, -1, VOCAB])
@pytest.mark.parametrize("cutoffs", [(), CUTOFFS])
def test_a_target_outside_the_vocabulary_is_an_error_and_not_a_loss(outside, cutoffs):
    _, softmax = pair(cutoffs=cutoffs)
    hidden, _ = some(1, 2, 8, VOCAB)
    with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
        softmax.losses(hidden, torch.tensor([[0, outside]]))
