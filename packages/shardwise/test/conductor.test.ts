import { randomUUID } from 'node:crypto';
import { MemoryStore } from '@shardwise/collectives/node';
import { expect, it } from 'vitest';
import { Conductor } from '../src/rendezvous/conductor.ts';
import type { HostChange } from '../src/rendezvous/generation.ts';
import { Pulse } from '../src/rendezvous/pulse.ts';
import { defaultTimes } from '../src/rendezvous/rendezvous.ts';
import {
  type Arrival,
  encodeJson,
  endKey,
  type RendezvousState,
} from '../src/rendezvous/rendezvous-state.ts';
import { SharedState } from '../src/rendezvous/shared-state.ts';

const host = (name: string): Arrival => ({ id: randomUUID(), name, address: name, ranks: 1 });

it('gives no place to a host in a generation that has ended', async () => {
  const [leader, newcomer] = [host('a'), host('b')];
  const store = new MemoryStore();
  const shared = new SharedState(store);
  const state: RendezvousState = {
    phase: 'running',
    leader: leader.id,
    epoch: 0,
    nodes: [{ ...leader, admission: 0 }],
    admissions: 1,
    waiting: [newcomer],
    restarts: 0,
    runDirectory: '/runs/job',
    minRanks: 1,
  };
  await shared.create(state);
  await store.set(endKey(0), encodeJson({ kind: 'finished' }));
  const conductor = new Conductor({
    store,
    shared,
    pulse: new Pulse(store, defaultTimes.heartbeatMs),
    id: leader.id,
    minNodes: 1,
    maxNodes: 2,
    maxRestarts: 0,
    minRanks: 1,
    times: defaultTimes,
    findResume: async () => ({ kind: 'nowhere' }),
    onNotice: () => undefined,
  });
  const changes: HostChange[] = [];
  conductor.onHosts((change) => void changes.push(change));
  conductor.start((error) => {
    throw error;
  });
  await expect.poll(async () => (await shared.read()).phase).toBe('over');
  await conductor.stop();
  expect(changes).toEqual([]);
  expect(await shared.read()).toEqual({ ...state, phase: 'over', end: { kind: 'finished' } });
});
