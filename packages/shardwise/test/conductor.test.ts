import { randomUUID } from 'node:crypto';
import { MemoryStore } from '@shardwise/collectives/node';
import { afterEach, describe, expect, it } from 'vitest';
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

const host = (name: string, ranks = 1): Arrival => ({
  id: randomUUID(),
  name,
  address: name,
  ranks,
});

let conductor: Conductor | undefined;
afterEach(async () => conductor?.stop());

/** Conducts the hosts of a state, of which the first one leads. */
async function conduct(
  own: Partial<RendezvousState> & Pick<RendezvousState, 'phase'>,
  leader: Arrival,
  {
    minRanks = 1,
    maxNodes = 2,
    // The other hosts give no signs of life.
    heartbeatLimitMs = Infinity,
  }: {
    readonly minRanks?: number;
    readonly maxNodes?: number;
    readonly heartbeatLimitMs?: number;
  } = {},
): Promise<{
  readonly store: MemoryStore;
  readonly shared: SharedState;
  readonly state: RendezvousState;
  readonly changes: readonly HostChange[];
  readonly notices: readonly string[];
}> {
  const store = new MemoryStore();
  const shared = new SharedState(store);
  const state: RendezvousState = {
    leader: leader.id,
    epoch: -1,
    nodes: [],
    admissions: 0,
    waiting: [],
    restarts: 0,
    runDirectory: '/runs/job',
    minRanks,
    ...own,
  };
  await shared.create(state);
  if (state.phase === 'running') await store.set(endKey(0), encodeJson({ kind: 'finished' }));
  const changes: HostChange[] = [];
  const notices: string[] = [];
  const started = new Conductor({
    store,
    shared,
    pulse: new Pulse(store, defaultTimes.heartbeatMs),
    id: leader.id,
    minNodes: 1,
    maxNodes,
    maxRestarts: 0,
    minRanks,
    times: { ...defaultTimes, lastCallMs: 0, heartbeatLimitMs },
    findResume: async () => ({ kind: 'from', directory: undefined }),
    onNotice: (text) => void notices.push(text),
  });
  conductor = started;
  started.onHosts((change) => void changes.push(change));
  started.start((error) => {
    throw error;
  });
  return { store, shared, state, changes, notices };
}

it('gives no place to a host in a generation that has ended', async () => {
  const [leader, newcomer] = [host('a'), host('b')];
  const nodes = [{ ...leader, admission: 0 }];
  const running = {
    phase: 'running',
    epoch: 0,
    nodes,
    admissions: 1,
    waiting: [newcomer],
  } as const;
  const { shared, state, changes } = await conduct(running, leader);
  await expect.poll(async () => (await shared.read()).phase).toBe('over');
  expect(changes).toEqual([]);
  expect(await shared.read()).toEqual({ ...state, phase: 'over', end: { kind: 'finished' } });
});

it('leaves no signs of life of a host that it has lost', async () => {
  const [leader, silent] = [host('a'), host('b')];
  const nodes = [leader, silent].map((node, admission) => ({ ...node, admission }));
  const running = { phase: 'running', epoch: 1, nodes, admissions: 2 } as const;
  const { store, shared } = await conduct(running, leader, { heartbeatLimitMs: 100 });
  await new Pulse(store, 1).beat(silent.id);
  await expect.poll(async () => (await shared.read()).nodes[1]?.isLost).toBe(true);
  await expect.poll(() => store.delete(`pulse/${silent.id}`)).toBe(false);
});

describe('a generation whose ranks go on while so many are left', () => {
  it('does not begin before so many have come, whatever the sizes of their hosts', async () => {
    const leader = host('a', 1);
    const few = { phase: 'gathering', waiting: [leader, host('b', 2)] } as const;
    const { shared, notices } = await conduct(few, leader, { minRanks: 5, maxNodes: 3 });
    await expect
      .poll(() => notices)
      .toEqual(['Waiting up to 600 s for hosts: 3 of 5 ranks have come.']);
    expect((await shared.read()).epoch).toBe(-1);
    const third = host('c', 2);
    await shared.update((state) => ({ ...state, waiting: [...state.waiting, third] }));
    await expect.poll(async () => (await shared.read()).phase).toBe('running');
    expect((await shared.read()).nodes).toMatchObject([{ ranks: 1 }, { ranks: 2 }, { ranks: 2 }]);
  });

  it('takes the hosts that have so many together, and waits for those that are about to come again', async () => {
    const [leader, other, spare] = [host('a', 4), host('b', 4), host('c', 2)];
    const nodes = [leader, other].map((node, admission) => ({ ...node, admission }));
    const again = { phase: 'gathering', epoch: 0, nodes, waiting: [leader, spare] } as const;
    const { shared, notices } = await conduct(again, leader, { minRanks: 8 });
    await expect
      .poll(() => notices, { timeout: 3000 })
      .toEqual([
        'Waiting up to 600 s for node 1 (b) or others in their place: 6 of 8 ranks have come.',
      ]);
    await shared.update((state) => ({ ...state, waiting: [...state.waiting, other] }));
    await expect.poll(async () => (await shared.read()).phase).toBe('running');
    expect(await shared.read()).toMatchObject({
      nodes: [{ name: 'a' }, { name: 'b' }],
      waiting: [{ name: 'c' }],
    });
  });

  it('never begins if all hosts of the run have fewer', async () => {
    const leader = host('a', 2);
    const all = { phase: 'gathering', waiting: [leader, host('b', 1)] } as const;
    const { shared } = await conduct(all, leader, { minRanks: 4 });
    const reason = 'the 2 hosts of the run have 3 ranks, and --min-nproc asks for 4';
    await expect.poll(async () => (await shared.read()).phase).toBe('over');
    expect((await shared.read()).end).toMatchObject({ kind: 'failed', failure: { reason } });
  });
});
