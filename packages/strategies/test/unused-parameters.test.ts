import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { strategies } from './ranks/different-parameters.ts';
import { failure } from './ranks/failure.ts';
import { unusedParametersTable } from './unused-parameters-table.ts';

unusedParametersTable(2);

it.each(Object.keys(strategies))(
  'without findUnusedParameters, losses of other parameters on each rank are an error that advises it: %s',
  async (data) => {
    const url = new URL('./ranks/different-parameters.ts', import.meta.url);
    const world = createThreadsWorld({ size: 2, arenaBytes: 4 * 1024 * 1024 });
    const failures = z.array(failure).parse(await spawnRanks(2, url, { world, data }));
    expect(failures).toHaveLength(2);
    for (const each of failures) {
      expect(each?.message).toContain('findUnusedParameters: true lets the losses of ranks use');
      expect(each?.message).toMatch(/'(left|right)\.weight'/);
    }
  },
);
