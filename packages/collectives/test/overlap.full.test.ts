import { createThreadsWorld } from '@shardwise/collectives';
import {
  closeShmWorld,
  createShmWorld,
  shmAvailability,
  startStoreServer,
} from '@shardwise/collectives/node';
import { type RankOutcome } from '@shardwise/testing';
import { findMpis, settleRanks } from '@shardwise/testing/node';
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { MpiPool } from './mpi-pool.ts';
import { ProcessPool } from './process-pool.ts';

const moduleUrl = new URL('./overlap-rank.ts', import.meta.url);
const size = 2;
const arenaBytes = 256 << 20;
const secret = 'the secret of a test';
const pool = new ProcessPool();
const mpis = findMpis().map((found) => ({
  ...found,
  pool: 'launcher' in found ? new MpiPool(found.launcher) : undefined,
}));
let epoch = 0;

afterAll(() => Promise.all([pool.end(), ...mpis.map((mpi) => mpi.pool?.end())]));

type Start = (data: 'message' | 'training') => Promise<readonly RankOutcome[]>;

const onThreads: Start = (data) =>
  settleRanks(size, moduleUrl, {
    name: 'onThreads',
    world: createThreadsWorld({ size, arenaBytes }),
    data,
  });

const onShm: Start = async (data) => {
  const world = createShmWorld({ size, arenaBytes });
  try {
    return await pool.run(size, moduleUrl, { name: 'onShm', world, data });
  } finally {
    closeShmWorld(world);
  }
};

const onTcp: Start = async (data) => {
  const server = await startStoreServer({ secret });
  epoch += 1;
  try {
    const world = { port: server.port, secret, epoch };
    return await pool.run(size, moduleUrl, { name: 'onTcp', world, data });
  } finally {
    server.close();
  }
};

const onMpi =
  (mpi: MpiPool | undefined): Start =>
  async (data) =>
    (await mpi?.run(size, moduleUrl, { name: 'onMpi', data })) ?? [];

const event = z.object({
  category: z.enum(['compute', 'collective', 'data', 'graph']),
  startMs: z.number(),
  durationMs: z.number(),
});
type Event = z.infer<typeof event>;

function valuesOf(outcomes: readonly RankOutcome[]): unknown[] {
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.error;
    return outcome.value;
  });
}

const endOf = ({ startMs, durationMs }: Event): number => startMs + durationMs;

/** The number of a step's messages that had ended before the backward pass was over. */
function hiddenMessages(events: readonly Event[]): number {
  const messages = events.filter(({ category }) => category === 'collective');
  const lastStart = Math.max(...messages.map(({ startMs }) => startMs));
  // The last bucket is sent when the last gradient is ready.
  const backward = events.filter((e) => e.category === 'compute' && e.startMs < lastStart);
  const backwardEnd = Math.max(...backward.map(endOf));
  return messages.filter((message) => endOf(message) < backwardEnd).length;
}

describe.each([
  { name: 'threads', start: onThreads, available: true },
  { name: 'processes that share memory', start: onShm, available: shmAvailability().available },
  { name: 'processes over tcp', start: onTcp, available: true },
  ...mpis.map((mpi) => ({
    name: `processes under ${mpi.name}${'missing' in mpi ? ` (not here: ${mpi.missing})` : ''}`,
    start: onMpi(mpi.pool),
    available: mpi.pool !== undefined,
  })),
])('communication between $name', ({ start, available }) => {
  it.skipIf(!available)(
    'of 64 MiB has ended when a long computation that began after it has',
    async () => {
      const answers = valuesOf(await start('message'));
      expect(answers).toEqual(
        Array.from({ length: size }, () => ({ wasReduced: true, sums: [3] })),
      );
    },
  );

  it.skipIf(!available)('of early buckets has ended before the backward pass has', async () => {
    const ranks = z.array(z.array(z.array(event))).parse(valuesOf(await start('training')));
    for (const steps of ranks) {
      const hidden = steps.map(hiddenMessages);
      expect(Math.max(...hidden)).toBeGreaterThanOrEqual(2);
    }
  });
});
