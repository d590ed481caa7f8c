"""Checks of the exercises, a file for each topic; a check names the likely mistake.

00   start, reading                 07   shaw, distance_tables
01   attention, layer               08   terms, heads
02   positions                      09   shift
03   block, segments, sliding       10   training, training_bugs,
04   recurrence, segment_loop,           training_loop, schedule,
     gradient_parts                      mean_bits, shares
05   collisions                     10b  seeds, splits, comparisons
06   reach                          11   interventions, memory_use
06b  context_length,                12   cost, scoring
     context_mistakes,              13   generation, loop_tests,
     reading_contexts,                   loop_comparisons, one_query,
     tossing, many_draws,                cached_layers, cached_loop,
     used_context, rivals,               drawing, prompts,
     own_context, context_cases          batched_query, loop_probes
                                    13b  units, recital, copies
                                    14   later, rotary, rolling
"""
