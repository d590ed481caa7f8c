"""Experiments: one file each, one result each, rebuilt by ``minitxl figures``.

Reach and context:

    dependency             how far back a token can matter, by formula, propagation, perturbation and gradient
    copying                whether what can be reached is also learned: copy a token, across segments
    segment_copying        what a cut between segments costs
    relay_routes           by which states a trained relay carries a token on
    context                how much context trained models use (Table 8, Figures 3 and 4)
    attention_over_memory  where heads look, and what the memory they look at is worth (Figures 5 to 7)
    far_attention          where models look whose memory is longer than in training

Positions:

    absolute_positions     absolute positions that restart, count on, or count in a circle
    deeper_layers          whether deeper layers tell old from new, where positions restart
    shaw_clipping          Shaw's clip distance, trained short and tested long
    without_terms          Transformer-XL trained whole, and without each of its four terms
    later_positions        seven kinds of positions, with and without memory
    position_repairs       whether T5 only learns slowly, and whether rotary can read farther

What each idea buys:

    demo                   from a vanilla segment model to Transformer-XL in two steps
    memory_and_positions   whether memory helps, and whether it needs relative positions
    every_system           each encoding with and without memory, post-norm and pre-norm
    ablation               encoding × recurrence × loss (Tables 6 and 10)
    equal_bytes            memory or longer segments, at equal bytes while training (Table 10)
    short_dependency       recurrence where no dependency is long (Table 7)
    short_segments         where memory pays after a minute of training
    training_parts         warm-up, the falling rate, lanes in order, memory
    ptb                    seven systems on the Penn Treebank (Table 5)
    ptb_training           trains the models of ``ptb``, and keeps them
    ptb_reading            reads a text with them
    samples                long samples from the best model (Appendix E)

What it costs:

    evaluation_cost        a window computed anew beside a memory that is kept (Table 9)
    generation_cost        one more token of a long text
    scaling                time and memory of the published configurations, on one device and on many

For all of them:

    shared                 results and their fingerprints, trained models, summaries by seed
    conclusions            the claims that are tested on each result
"""

from typing import Literal, get_args

Experiment = Literal[
    "dependency",
    "copying",
    "relay_routes",
    "segment_copying",
    "absolute_positions",
    "deeper_layers",
    "memory_and_positions",
    "every_system",
    "ablation",
    "equal_bytes",
    "short_dependency",
    "context",
    "attention_over_memory",
    "samples",
    "evaluation_cost",
    "generation_cost",
    "shaw_clipping",
    "without_terms",
    "later_positions",
    "position_repairs",
    "far_attention",
    "training_parts",
    "short_segments",
    "ptb",
    "scaling",
]
"""Name of an experiment: of its file here, and of its result."""
EXPERIMENTS: tuple[Experiment, ...] = get_args(Experiment)
