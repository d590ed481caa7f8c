"""Checks of the exercises, a file for each topic; a check names the likely mistake.

00   start, reading                 07   shaw, distance_tables
01   attention, layer               08   terms, heads
02   positions                      09   shift
03   block, segments, sliding       10   training, schedule,
04   recurrence, segment_loop,           comparisons, shares, splits
     gradient_parts                 11   interventions, memory_use
05   collisions                     12   cost, scoring
06   reach                          13   generation, loop_tests,
06b  context_length,                     loop_comparisons, one_query,
     context_mistakes,                   cached_layers, cached_loop,
     reading_contexts,                   drawing, prompts,
     tossing, many_draws,                batched_query, loop_probes
     used_context, rivals,          13b  units, recital, copies
     own_context, context_cases     14   later, rotary, rolling
"""
