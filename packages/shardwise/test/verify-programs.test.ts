import { describe, expect, it } from 'vitest';
import { drawProgram, drops, type Program } from './draw-program.ts';
import { expectNothingFound, ranksOf, seedsFrom } from './verify-programs.ts';

describe('verify', () => {
  // The other seeds from 0 to 99 are those of the full and the slow test.
  it('finds nothing in right programs: random models, strategies, losses and optimizers', async () => {
    await expectNothingFound(2, [0, 1, 2, 3, 7, 8]);
    expect.hasAssertions();
  }, 150_000);
});

describe('the 100 right programs', () => {
  const programs = seedsFrom(0, 100).map((seed) => drawProgram(seed, ranksOf(seed)));

  const kinds: Record<string, (program: Program) => boolean> = {
    dropout: ({ shape }) => shape.dropout > 0,
    accumulation: ({ accumulates }) => accumulates > 1,
    'uneven batches': ({ losses, shape }) => losses === 'counted' && shape.dataAxes.length > 0,
    'several losses': ({ losses }) => losses === 'two',
    pipelines: ({ axes }) => axes.some(({ name }) => name === 'pp'),
    'pipelines whose microbatches count labels': ({ ignores }) => ignores,
    'tensor parallelism': ({ axes }) => axes.some(({ name }) => name === 'tp'),
    'parts of parameters': ({ strategyName }) => /ZeRO|FSDP/.test(strategyName),
    experts: ({ shape }) => shape.experts !== null,
    'expert parallelism': ({ axes }) => axes.some(({ name }) => name === 'ep'),
    'experts that drop tokens': ({ shape }) => shape.experts !== null && drops(shape.experts.gate),
    'experts that are balanced': ({ shape }) => (shape.experts?.balance ?? 'none') !== 'none',
  };

  it.each(Object.entries(kinds))('have %s in at least five of them', (_, fits) => {
    expect(programs.filter(fits).length).toBeGreaterThanOrEqual(5);
  });
});
