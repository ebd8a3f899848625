import { cpu } from '@shardwise/backend-cpu';
import { fsdp, parallelize, tensorParallel } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { EngineOptions } from '../src/engine/engine-options.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import { dividableModel, randomModel, randomTokens } from './models.ts';

const onTwo = {
  createDevice: () => cpu({ batchInvariant: true }),
  axes: [{ name: 'tp', size: 2 }],
};

/** Prompts of other lengths, which come while others are answered, and for which there are too few blocks. */
const requests = [3, 40, 17, 64, 9, 33].map((length, index): GenerationRequest => ({
  prompt: randomTokens(index + 1, length),
  maxNewTokens: 35 + index,
  temperature: 0,
  logProbabilities: 0,
  ignoreEos: true,
}));
const options: EngineOptions = { blockSize: 8, cacheTokens: 136, maxChunkTokens: 24 };

async function answers(engine: Engine): Promise<readonly Completion[]> {
  const all = await Promise.all([
    ...requests.map((request) => complete(engine.generate(request))),
    complete(engine.generate({ prompt: [1, 2, 3], maxNewTokens: 8, seed: 5, samples: 3 })),
  ]);
  return all.flat();
}

describe('An engine whose model two ranks have parts of', () => {
  test.each(['llama', 'gpt2'] as const)(
    'makes the tokens of one rank, and its scores to rounding (%s).',
    async (family) => {
      const [alone = []] = await onRanks(
        1,
        async () => {
          const engine = new Engine(dividableModel(family), null, options);
          const texts = await answers(engine);
          expect(engine.statistics.preemptions).toBeGreaterThan(0);
          await engine.dispose();
          return texts;
        },
        { createDevice: onTwo.createDevice },
      );
      const [divided = [], followed] = await onRanks(
        2,
        async ({ rank }) => {
          const model = await parallelize(dividableModel(family), tensorParallel());
          const engine = new Engine(model, null, options);
          if (rank > 0) {
            await engine.follow();
            await engine.dispose();
            return [];
          }
          const texts = await answers(engine);
          // Blocks are shared, copied and taken by the decisions of one rank.
          expect(engine.statistics.preemptions).toBeGreaterThan(0);
          await engine.dispose();
          return texts;
        },
        onTwo,
      );
      expect(followed).toEqual([]);
      expect(divided.map(({ tokens }) => tokens)).toEqual(alone.map(({ tokens }) => tokens));
      for (const [index, text] of divided.entries()) {
        for (const [at, value] of text.logProbabilities.entries()) {
          expect(value).toBeCloseTo(alone[index]?.logProbabilities[at] ?? Number.NaN, 4);
        }
      }
    },
  );

  test.each(['llama', 'gpt2'] as const)(
    'swaps the blocks of each rank, and makes the same tokens (%s).',
    async (family) => {
      const run = async (preemption: 'recompute' | 'swap'): Promise<readonly Completion[]> => {
        const [texts = []] = await onRanks(
          2,
          async ({ rank }) => {
            const model = await parallelize(dividableModel(family), tensorParallel());
            const engine = new Engine(model, null, { ...options, preemption });
            if (rank > 0) {
              await engine.follow();
              await engine.dispose();
              return [];
            }
            const all = await answers(engine);
            const { preemptions, swappedBlocks } = engine.statistics;
            expect(preemptions).toBeGreaterThan(0);
            expect(swappedBlocks).toBe(0);
            await engine.dispose();
            return all;
          },
          onTwo,
        );
        return texts;
      };
      expect(await run('swap')).toEqual(await run('recompute'));
    },
  );

  test('takes requests on the first rank only, and no other weights.', async () => {
    const errors = await onRanks(
      2,
      async ({ rank }) => {
        const engine = new Engine(await parallelize(randomModel('llama'), tensorParallel()));
        if (rank === 0) {
          expect(() => engine.loadWeights(() => Promise.resolve(), { version: 'a' })).toThrow(
            'of which each rank has a part',
          );
          await engine.dispose();
          return 'none';
        }
        try {
          engine.generate({ prompt: [1] });
        } catch (error) {
          await engine.follow();
          return String(error);
        }
        return 'none';
      },
      onTwo,
    );
    expect(errors[1]).toContain('Ask the first rank of the group');
  });

  test('has caches of the same sizes, or none of its ranks goes on.', async () => {
    await expect(
      onRanks(
        2,
        async ({ rank }) => {
          const model = await parallelize(randomModel('llama'), tensorParallel());
          const engine = new Engine(model, null, { cacheTokens: 160 + 16 * rank });
          if (rank > 0) await engine.follow();
          else await answers(engine);
        },
        onTwo,
      ),
    ).rejects.toThrow('a cache of other sizes than that of the first rank');
  });

  test('is refused if ranks have other rows.', async () => {
    await expect(
      onRanks(2, async () => new Engine(await parallelize(randomModel('llama'), fsdp())), {
        createDevice: onTwo.createDevice,
      }),
    ).rejects.toThrow('have parts');
  });
});
