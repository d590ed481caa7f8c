"""Checks of the exercises, a file for each topic; a check names the likely mistake.

00   start, reading                 07   shaw, distance_tables
01   attention, layer               08   terms, heads
02   positions                      09   shift
03   block, segments, sliding       10   training, training_bugs,
04   recurrence, segment_loop,           schedule, mean_bits, shares
     gradient_parts                 10b  seeds, splits, comparisons
05   collisions                     11   interventions, memory_use
06   reach                          12   cost, scoring
06b  context_length,                13   generation, loop_tests,
     context_mistakes,                   loop_comparisons, one_query,
     reading_contexts,                   cached_layers, cached_loop,
     tossing, many_draws,                drawing, prompts,
     used_context, rivals,               batched_query, loop_probes
     own_context, context_cases     13b  units, recital, copies
                                    14   later, rotary, rolling
"""
