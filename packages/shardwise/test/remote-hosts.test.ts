import { MemoryStore } from '@shardwise/collectives/node';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BatchSender } from '../src/relay/batches.ts';
import { parseFromHost, parseToHost, plainFromHost } from '../src/launcher/members/host-message.ts';
import type { MemberStart } from '../src/launcher/members/member-start.ts';
import { fromHostRoute, RemoteHost, toHostRoute } from '../src/launcher/members/remote-host.ts';
import { receiveBatches } from '../src/relay/batches.ts';
import { stepReport } from './run-fixture.ts';

const link = { store: new MemoryStore(), admission: 3 };

/** A start whose listeners note what they hear. */
function noted(): { readonly heard: unknown[]; readonly start: MemberStart } {
  const heard: unknown[] = [];
  const note = (...values: unknown[]): void => void heard.push(...values);
  return {
    heard,
    start: { restarts: 1, onMessage: note, onMember: note, onDoomed: note, onEnd: note },
  };
}

describe('the ranks of another host', () => {
  it('are started there, are heard in order, and end when their host says so', async () => {
    const host = new RemoteHost(link);
    const { heard, start } = noted();
    const rank = host.starts(5)(start);
    rank.order({ kind: 'membership', epoch: 1, lost: 'rank 2 died' });
    const orders: unknown[] = [];
    const obeyed = new AbortController();
    const obeying = receiveBatches(toHostRoute(link), obeyed.signal, (value) => {
      orders.push(parseToHost(value));
      if (orders.length === 2) obeyed.abort();
    });
    await obeying;
    expect(orders).toEqual([
      { kind: 'start', rank: 5, restarts: 1 },
      { kind: 'order', rank: 5, order: { kind: 'membership', epoch: 1, lost: 'rank 2 died' } },
    ]);
    const sender = new BatchSender(fromHostRoute(link), 0);
    const member = { kind: 'entered', epoch: 1, step: 4 } as const;
    const end = { exitCode: 1, error: new RangeError('it broke'), terminated: false };
    // The messages of a rank that was never started there are nothing.
    sender.send({ rank: 6, told: { kind: 'closed' } });
    sender.send({ rank: 5, told: { kind: 'message', message: stepReport(6, 1) } });
    sender.send({ rank: 5, told: { kind: 'message', message: stepReport(5, 1) } });
    sender.send({ rank: 5, told: { kind: 'member', message: member } });
    sender.send(plainFromHost({ rank: 5, told: { kind: 'end', end } }));
    sender.send({ rank: 5, told: { kind: 'closed' } });
    await sender.close();
    expect(await rank.outcome).toMatchObject({ rank: 5, exitCode: 1 });
    expect(heard).toMatchObject([
      stepReport(5, 1),
      member,
      { exitCode: 1, error: { name: 'RangeError', message: 'it broke' } },
    ]);
    await host.close();
  });

  it('are gone when their host is lost, which hears why when it can', async () => {
    const own = { store: new MemoryStore(), admission: 4 };
    const host = new RemoteHost(own);
    const { start } = noted();
    const rank = host.starts(0)(start);
    await host.lose('no sign of life');
    expect(await rank.outcome).toMatchObject({ exitCode: 1, fate: 'no sign of life' });
    const orders: unknown[] = [];
    await receiveBatches(toHostRoute(own), new AbortController().signal, (value) => {
      orders.push(parseToHost(value));
    });
    expect(orders.at(-1)).toEqual({ kind: 'dismiss', reason: 'no sign of life' });
  });

  it('say nothing by what is no message', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(parseFromHost(value)).toBeUndefined();
        expect(parseToHost(value)).toBeUndefined();
      }),
    );
  });
});
