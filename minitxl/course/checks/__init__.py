"""Checks of the exercises, a file for each topic; a check names the likely mistake.

00   start, reading                 07   shaw, distance_tables
01   attention, layer               08   terms, heads
02   positions                      09   shift
03   block, segments, sliding       10   training, schedule, comparisons
04   recurrence, segment_loop,      11   interventions, memory_use
     gradient_parts                 12   cost, scoring
05   collisions                     13   generation, loop_tests,
06   reach                               loop_comparisons, one_query,
06b  context_length,                     cached_layers, cached_loop,
     context_mistakes,                   drawing, prompts,
     reading_contexts,                   batched_query, loop_probes
     tossing, many_draws,           13b  units, recital, copies, lanes
     used_context, rivals,          14   later, rotary, rolling
     own_context, context_cases
"""
