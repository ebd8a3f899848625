import { MemoryStore } from '@shardwise/collectives/node';
import { describe, expect, it } from 'vitest';
import { followLeader } from '../src/launcher/members/follow-leader.ts';
import { RemoteHosts } from '../src/launcher/members/remote-hosts.ts';
import { fromHostRoute, toHostRoute } from '../src/launcher/members/remote-host.ts';
import { BatchSender } from '../src/relay/batches.ts';
import { generationOf, launchOptions, node } from './led-hosts.ts';

const never = new Promise<never>(() => undefined);

describe('a host that another one leads', () => {
  it('comes anew when the other one sends what is no batch of messages', async () => {
    const store = new MemoryStore();
    const link = { store, admission: 0 };
    await store.set(`${toHostRoute(link).prefix}/0`, new Uint8Array(0));
    const options = launchOptions(await generationOf([node(0, 1)]));
    const { dismissed } = await followLeader(options, link, never);
    expect(dismissed).toMatchObject({
      reason: 'the host that leads sent what is no batch of messages',
      isFinal: false,
    });
  });

  it('comes anew when the store refuses what its ranks tell', async () => {
    class FullStore extends MemoryStore {
      override set(key: string, value: Uint8Array): Promise<void> {
        if (key.includes('/from/')) return Promise.reject(new Error('it is full'));
        return super.set(key, value);
      }
    }
    const link = { store: new FullStore(), admission: 0 };
    // There is no such script, so the rank ends at once, and its host tells it.
    const options = launchOptions(await generationOf([node(0, 1)]), { script: '/no/train.ts' });
    const leader = new BatchSender(toHostRoute(link), 0);
    leader.send({ kind: 'start', rank: 0, restarts: 0 });
    const { dismissed } = await followLeader(options, link, never);
    expect(dismissed).toMatchObject({
      reason: 'the store has refused a message of it: Error: it is full',
      isFinal: false,
    });
    await leader.close();
  });
});

describe('a host that sends what is no batch of messages', () => {
  it('is lost at once with all its ranks, and may come anew', async () => {
    const store = new MemoryStore();
    const lost = Promise.withResolvers<readonly unknown[]>();
    const came: unknown[] = [];
    const hosts = new RemoteHosts(store, await generationOf([node(0, 1), node(1, 2)]), {
      onCame: (slots) => came.push(slots.length),
      onLost: (...said) => lost.resolve(said),
      onNotice: () => undefined,
    });
    hosts.begin(0);
    await store.set(`${fromHostRoute({ store, admission: 1 }).prefix}/0`, new Uint8Array(0));
    const reason = 'node 1 (host-1) was lost: it sent what is no batch of messages';
    expect(await lost.promise).toEqual([1, reason]);
    hosts.change({ kind: 'lost', place: 1, admission: 1, reason: 'its launcher was cut off' });
    hosts.change({ kind: 'came', place: 1, node: node(2, 2) });
    expect(came).toEqual([2]);
    await hosts.close();
  });
});
