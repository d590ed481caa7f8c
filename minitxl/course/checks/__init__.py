"""Checks of the exercises, a file for each topic; a check names the likely mistake.

00   start, reading                 07   shaw, distance_tables
01   attention, layer               08   terms, heads
02   positions                      09   shift
03   block, segments, sliding       10   training, training_bugs,
04   recurrence, segment_loop,           training_loop, schedule,
     gradient_parts                      mean_bits, shares
05   collisions                     10b  seeds, pairs
06   reach                          10c  splits, comparisons,
06b  context_length,                     own_reading
     context_mistakes,              11   interventions, memory_use
     reading_contexts,              12   cost, scoring
     tossing, many_draws,           13   generation, loop_tests,
     used_context, rivals,               loop_comparisons, one_query,
     own_context, context_cases          cached_layers, cached_loop,
                                         drawing, prompts,
                                         batched_query, loop_probes
                                    13b  units, recital, copies
                                    14   later, rotary, rolling
"""
