import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { changeSeats } from '../src/rendezvous/change-seats.ts';
import type { Arrival, RendezvousState } from '../src/rendezvous/rendezvous-state.ts';

const host = (name: string, ranks = 2): Arrival => ({
  id: randomUUID(),
  name,
  address: name,
  ranks,
});
const [a, b, c, d] = [host('a'), host('b'), host('c'), host('d', 4)];

function stateOf(
  nodes: readonly Arrival[],
  waiting: readonly Arrival[],
  lost: readonly Arrival[] = [],
): RendezvousState {
  return {
    phase: 'running',
    leader: a.id,
    epoch: 0,
    nodes: nodes.map((node, admission) => ({ ...node, admission, isLost: lost.includes(node) })),
    admissions: nodes.length,
    waiting,
    restarts: 0,
    runDirectory: '/runs/job',
  };
}

const changed = (state: RendezvousState, silent: readonly Arrival[] = [], maxNodes = 3) =>
  changeSeats(state, { silent: new Set(silent.map(({ id }) => id)), maxNodes, silenceMs: 2000 });

describe('hosts of ranks that go on', () => {
  it('stay as they are where nobody is silent or waits', () => {
    expect(changed(stateOf([a, b], []))).toBeUndefined();
  });

  it('lose their places when they are silent, and others with as many ranks get these', () => {
    const first = changed(stateOf([a, b, c], [d]), [b]);
    expect(first?.changes).toEqual([
      {
        kind: 'lost',
        place: 1,
        admission: 1,
        reason: 'its launcher gave no sign of life for 2000 ms',
      },
      { kind: 'came', place: 3, node: { ...d, admission: 3 } },
    ]);
    const other = host('e');
    const second = changed(stateOf([a, b, c], [other], [b]));
    expect(second?.changes).toEqual([{ kind: 'came', place: 1, node: { ...other, admission: 3 } }]);
    expect(second?.state).toMatchObject({ admissions: 4, waiting: [] });
  });

  it('get their own places again if these are free', () => {
    expect(changed(stateOf([a, b, c], [c], [b, c]))?.changes).toMatchObject([
      { kind: 'came', place: 2, node: { name: 'c', admission: 3 } },
    ]);
  });

  it('are lost if their launchers come anew before anybody has missed them', () => {
    expect(changed(stateOf([a, b], [b]))?.changes).toEqual([
      { kind: 'lost', place: 1, admission: 1, reason: 'its launcher was cut off' },
      { kind: 'came', place: 1, node: { ...b, admission: 2 } },
    ]);
  });

  it('wait while there are as many as may be, and are forgotten if they are silent then', () => {
    expect(changed(stateOf([a, b], [c]), [], 2)).toBeUndefined();
    expect(changed(stateOf([a, b], [c]), [c], 2)?.state.waiting).toEqual([]);
  });
});
