import {
  connectStore,
  MemoryStore,
  PrefixStore,
  startStoreServer,
} from '@shardwise/collectives/node';
import { storeSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { describe, expect, it } from 'vitest';

const secret = 'open sesame';

testSuite(
  storeSuite({
    name: 'memory',
    open: async () => {
      const store = new MemoryStore();
      return { clients: [store, store], end: () => store.close() };
    },
  }),
);

for (const encrypt of [false, true]) {
  testSuite(
    storeSuite({
      name: encrypt ? 'encrypted tcp' : 'tcp',
      open: async () => {
        const server = await startStoreServer({ secret, encrypt });
        const at = { host: server.host, port: server.port, secret, encrypt };
        const clients = [await connectStore(at), await connectStore(at)] as const;
        return { clients, end: () => server.close() };
      },
    }),
  );
}

describe('a prefixed store', () => {
  it('has keys of its own in the store that it shares with others', async () => {
    const store = new MemoryStore();
    const [one, two] = [new PrefixStore('one', store), new PrefixStore('two', store)];
    const waiting = one.wait(['rank']);
    await one.set('rank', Uint8Array.of(1));
    await waiting;
    expect(await two.compareSet('rank', undefined, Uint8Array.of(2))).toEqual(Uint8Array.of(2));
    expect(await one.get('rank')).toEqual(Uint8Array.of(1));
    expect(await store.get('two/rank')).toEqual(Uint8Array.of(2));
    expect([await one.add('count', 2), await two.add('count', 3)]).toEqual([2, 3]);
    expect([await one.delete('rank'), await one.delete('rank')]).toEqual([true, false]);
    await expect(one.get('rank', { timeoutMs: 10 })).rejects.toThrow('store key one/rank');
    one.close();
    await expect(two.get('rank')).rejects.toThrow();
  });
});

describe('a store server', () => {
  it('that ends rejects the calls of its clients', async () => {
    const server = await startStoreServer({ secret });
    const store = await connectStore({ host: server.host, port: server.port, secret });
    const pending = expect(store.get('never')).rejects.toMatchObject({
      code: 'COLLECTIVE_ABORTED',
    });
    server.close();
    await pending;
  });

  it('is found by clients that started before it', async () => {
    const first = await startStoreServer({ secret });
    const { host, port } = first;
    first.close();
    const connecting = connectStore({ host, port, secret, timeoutMs: 10_000 });
    const server = await startStoreServer({ secret, port });
    const store = await connecting;
    expect(await store.add('n', 1)).toBe(1);
    store.close();
    server.close();
  });

  it('that never comes is named with the time limit', async () => {
    const gone = await startStoreServer({ secret });
    const { host, port } = gone;
    gone.close();
    await expect(connectStore({ host, port, secret, timeoutMs: 100 })).rejects.toThrow(
      `store at 127.0.0.1:${port}: no store accepted the connection within 100 ms`,
    );
  });
});
