import { MemoryStore } from '@shardwise/collectives/node';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BatchSender } from '../src/relay/batches.ts';
import { parseFromHost, parseToHost, plainFromHost } from '../src/launcher/members/host-message.ts';
import type { MemberStart } from '../src/launcher/members/member-start.ts';
import { RemoteHosts } from '../src/launcher/members/remote-hosts.ts';
import { fromHostRoute, RemoteHost, toHostRoute } from '../src/launcher/members/remote-host.ts';
import { receiveBatches } from '../src/relay/batches.ts';
import { SlowStore } from './slow-store.ts';
import { generationOf, node } from './led-hosts.ts';
import { stepReport } from './run-fixture.ts';

const link = { store: new MemoryStore(), admission: 3 };

const never = (reason: string): never => {
  throw new RangeError(reason);
};

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
    const host = new RemoteHost(link, never);
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
    sender.send({ rank: 6, restarts: 1, told: { kind: 'closed' } });
    // Nor are those of the rank before it in its place.
    sender.send({ rank: 5, restarts: 0, told: { kind: 'closed' } });
    const of = { rank: 5, restarts: 1 };
    sender.send({ ...of, told: { kind: 'message', message: stepReport(6, 1) } });
    sender.send({ ...of, told: { kind: 'message', message: stepReport(5, 1) } });
    sender.send({ ...of, told: { kind: 'member', message: member } });
    sender.send(plainFromHost({ ...of, told: { kind: 'end', end } }));
    sender.send({ ...of, told: { kind: 'closed' } });
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
    const host = new RemoteHost(own, never);
    const { start } = noted();
    const rank = host.starts(0)(start);
    await host.lose('no sign of life');
    expect(await rank.outcome).toMatchObject({ exitCode: 1, fate: 'no sign of life' });
    const orders: unknown[] = [];
    await receiveBatches(toHostRoute(own), new AbortController().signal, (value) => {
      orders.push(parseToHost(value));
    });
    expect(orders.at(-1)).toEqual({
      kind: 'dismiss',
      reason: 'no sign of life',
      isFinal: false,
    });
  });

  it('leave nothing in the store when their host is lost and reads no more', async () => {
    const store = new MemoryStore();
    const nodes = [node(0, 0), node(1, 1)];
    const hosts = new RemoteHosts(store, await generationOf(nodes), {
      onCame: () => undefined,
      onLost: () => undefined,
      onNotice: never,
    });
    const [slot] = hosts.begin(0);
    const rank = slot?.start(noted().start);
    rank?.order({ kind: 'stop' });
    const own = { store, admission: 1 };
    const sender = new BatchSender(fromHostRoute(own), 0);
    hosts.change({ kind: 'lost', place: 1, admission: 1, reason: 'no sign of life' });
    // The host has sent this before it was lost, and nobody reads it.
    sender.send({ rank: 0, restarts: 1, told: { kind: 'closed' } });
    await sender.close();
    await hosts.close();
    const left = [toHostRoute(own), fromHostRoute(own)].flatMap(({ prefix }) =>
      [0, 1, 2, 3].map((sequence) => store.delete(`${prefix}/${sequence}`)),
    );
    expect(await Promise.all(left)).not.toContain(true);
  });

  it('are lost when their host sends what is no batch, and it hears why', async () => {
    const own = { store: new MemoryStore(), admission: 5 };
    const host: RemoteHost = new RemoteHost(own, (said) => void host.lose(said));
    const { start, heard } = noted();
    const rank = host.starts(0)(start);
    await own.store.set(`${fromHostRoute(own).prefix}/0`, new TextEncoder().encode('nothing'));
    const reason = 'it sent what is no batch of messages';
    expect(await rank.outcome).toMatchObject({ exitCode: 1, fate: reason });
    expect(heard).toMatchObject([{ fate: reason }]);
    // Nor does a rank that is started there later hold up the others.
    expect(await host.starts(0)(start).outcome).toMatchObject({ fate: reason });
    await host.close();
    const orders: unknown[] = [];
    await receiveBatches(toHostRoute(own), new AbortController().signal, (value) => {
      orders.push(parseToHost(value));
    });
    expect(orders.at(-1)).toEqual({ kind: 'dismiss', reason, isFinal: false });
  });

  it('are lost when the store refuses an order to them', async () => {
    const store = new SlowStore();
    const host: RemoteHost = new RemoteHost(
      { store, admission: 6 },
      (said) => void host.lose(said),
    );
    const rank = host.starts(0)(noted().start);
    await store.asked(1);
    store.refuse(new Error('it is full'));
    const fate = 'the store has refused a message to it: Error: it is full';
    expect(await rank.outcome).toMatchObject({ exitCode: 1, fate });
    await host.close();
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
