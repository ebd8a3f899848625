import * as fc from 'fast-check';
import type { ComparedTask } from './compare-with-one-rank.ts';

const ROWS = 4;

/** Trainings on this many ranks, with lengths, masks, heads and meshes that were drawn. */
export function drawnTasks(ranks: number, count: number): readonly ComparedTask[] {
  const sizes = [2, 3, 4, 6].filter((cp) => ranks % cp === 0 && ROWS % (ranks / cp) === 0);
  const task = fc
    .record({
      method: fc.constantFrom(
        'ring' as const,
        'allGather' as const,
        'ulysses' as const,
        'usp' as const,
      ),
      order: fc.constantFrom('headTail' as const, 'contiguous' as const),
      cp: fc.constantFrom(...sizes),
      shared: fc.constantFrom('ddp' as const, 'zero' as const, 'fsdp' as const),
      lengths: fc.array(fc.integer({ min: 4, max: 24 }), { minLength: 2, maxLength: 3 }),
      groups: fc.constantFrom(1, 2, 3, 4),
      repeats: fc.constantFrom(1, 2, 3),
      causal: fc.boolean(),
      window: fc.option(fc.integer({ min: 1, max: 9 })),
      documents: fc.option(fc.integer({ min: 1, max: 9 })),
      masked: fc.boolean(),
      memory: fc.boolean(),
      sources: fc.option(fc.array(fc.integer({ min: 3, max: 24 }), { minLength: 3, maxLength: 3 })),
      device: fc.constantFrom('cpu' as const, 'interpreter' as const),
    })
    .map(({ repeats, ...each }): ComparedTask => {
      return { ...each, rows: ROWS, heads: each.groups * repeats };
    })
    // Ranks of ulysses each have a head, and those of usp are in groups of two.
    .filter(({ method, heads, cp }) => method !== 'ulysses' || heads >= cp)
    .filter(({ method, heads, cp }) => method !== 'usp' || (heads >= 2 && cp % 2 === 0));
  return fc.sample(task, { numRuns: count, seed: 41 + ranks });
}
