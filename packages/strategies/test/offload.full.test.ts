import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Options, results } from './ranks/offload.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;
const layers = 24;
const width = 128;
/** The bytes of this rank's parts of a layer. */
const layerBytes = ((width * width + width) * Float32Array.BYTES_PER_ELEMENT) / size;
const partBytes = layers * layerBytes;

const accumulations = {
  'one pass a step': [],
  'passes that are reduced each': ['reduced', 'reduced'],
  'passes that wait for the last one': ['waiting', 'waiting'],
  'passes of both kinds': ['waiting', 'reduced', 'waiting'],
} as const satisfies Record<string, Options['earlierPasses']>;

describe.each(Object.entries(accumulations))(
  'FSDP whose states and gradients are outside the device, with %s',
  (_, earlierPasses) => {
    let directory = '';
    let ranks: readonly z.infer<typeof results>[] = [];
    let left: readonly string[] = [];

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'shardwise-offload-'));
      const data: Options = {
        directory,
        layers,
        width,
        kinds: ['none', 'host', 'disk'],
        earlierPasses: [...earlierPasses],
      };
      const found = await spawnRanks(size, new URL('./ranks/offload.ts', import.meta.url), {
        world: createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 }),
        data,
        timeoutMs: trainingMs,
      });
      ranks = z.array(results).length(size).parse(found);
      left = await readdir(directory);
    }, testMs);

    afterAll(() => rm(directory, { recursive: true, force: true }));

    it.each(['host', 'disk'])('has the same losses, bit for bit: %s', (kind) => {
      for (const rank of ranks) expect(rank[kind]?.losses).toEqual(rank['none']?.losses);
    });

    it('has parameters, gradients and both moments on the device without it', () => {
      for (const rank of ranks) expect(rank['none']?.peakBytes).toBeGreaterThan(4 * partBytes);
    });

    it.each(['host', 'disk'])('has on the device only a few layers: %s', (kind) => {
      for (const rank of ranks) {
        // The limit allows for three whole layers, each of two parts, and for gradients that are whole, waiting or
        // reduced.
        expect(rank[kind]?.peakBytes).toBeLessThan(18 * layerBytes);
      }
    });

    it('removes its files', () => {
      expect(left).toEqual([]);
    });
  },
);
