import { connectStore, MemoryStore, startStoreServer } from '@shardwise/collectives/node';
import type { Store } from '@shardwise/core/spec';
import { afterEach, describe, expect, it } from 'vitest';

const secret = 'open sesame';
const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

interface Kind {
  readonly name: string;
  /** Two clients of one store. */
  readonly open: () => Promise<readonly [Store, Store, () => void]>;
}

function served(encrypt: boolean): Kind['open'] {
  return async () => {
    const server = await startStoreServer({ secret, encrypt });
    const at = { host: server.host, port: server.port, secret, encrypt };
    return [await connectStore(at), await connectStore(at), () => server.close()];
  };
}

const kinds: readonly Kind[] = [
  {
    name: 'in memory',
    open: async () => {
      const store = new MemoryStore();
      return [store, store, () => store.close()];
    },
  },
  { name: 'over tcp', open: served(false) },
  { name: 'over encrypted tcp', open: served(true) },
];

describe.each(kinds)('a store $name', ({ open }) => {
  const ends: (() => void)[] = [];
  const clients = async (): Promise<readonly [Store, Store]> => {
    const [one, other, end] = await open();
    ends.push(
      () => one.close(),
      () => other.close(),
      end,
    );
    return [one, other];
  };
  afterEach(() => {
    for (const end of ends.splice(0)) end();
  });

  it('gives what was set, to whoever asks', async () => {
    const [one, other] = await clients();
    await one.set('key', bytes(1, 2, 3));
    expect([...(await other.get('key'))]).toEqual([1, 2, 3]);
  });

  it('takes values of 1 MiB, and refuses longer ones and longer keys', async () => {
    const [one, other] = await clients();
    const big = new Uint8Array(1 << 20).fill(5);
    await one.set('k'.repeat(1024), big);
    expect(Buffer.compare(await other.get('k'.repeat(1024)), big)).toBe(0);
    await expect(one.set('key', new Uint8Array((1 << 20) + 1))).rejects.toThrow(/1048577 bytes/);
    await expect(one.set('k'.repeat(1025), big)).rejects.toThrow(/1025 bytes/);
  });

  it('a get waits until the key is set', async () => {
    const [one, other] = await clients();
    const value = one.get('later');
    await other.set('later', bytes(9));
    expect([...(await value)]).toEqual([9]);
  });

  it('a wait settles when the last key is set', async () => {
    const [one, other] = await clients();
    const all = one.wait(['a', 'b']).then(() => 'all');
    await other.set('a', bytes());
    await other.set('b', bytes());
    expect(await all).toBe('all');
  });

  it('a wait that ends too late names its keys and the limit, and the store goes on', async () => {
    const [one] = await clients();
    await expect(one.wait(['a', 'b'], { timeoutMs: 20 })).rejects.toThrow(
      /keys a, b: not set within 20 ms/,
    );
    await expect(one.get('a', { timeoutMs: 20 })).rejects.toMatchObject({
      code: 'COLLECTIVE_TIMEOUT',
    });
    expect(await one.add('calls', 1)).toBe(1);
  });

  it('a signal ends a wait', async () => {
    const [one] = await clients();
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(one.get('a', { signal })).rejects.toThrow(/enough/);
  });

  it('gives each caller of add another number, and get reads the digits', async () => {
    const [one, other] = await clients();
    const sums = await Promise.all([one, other, one, other].map((store) => store.add('n', 1)));
    expect(sums.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4]);
    expect(await one.add('n', -4)).toBe(0);
    expect(new TextDecoder().decode(await other.get('n'))).toBe('0');
  });

  it('add refuses what is no counter', async () => {
    const [one] = await clients();
    await one.set('text', new TextEncoder().encode('abc'));
    await expect(one.add('text', 1)).rejects.toThrow(/not a number/);
    await expect(one.add('n', 0.5)).rejects.toMatchObject({ code: 'CONFIG' });
  });

  it('compareSet sets only what is as expected, and returns what is there', async () => {
    const [one, other] = await clients();
    expect([...(await one.compareSet('c', undefined, bytes(1)))]).toEqual([1]);
    expect([...(await other.compareSet('c', undefined, bytes(2)))]).toEqual([1]);
    expect([...(await other.compareSet('c', bytes(1), bytes(3)))]).toEqual([3]);
    expect([...(await one.compareSet('c', bytes(1), bytes(4)))]).toEqual([3]);
  });

  it('delete says whether there was something', async () => {
    const [one, other] = await clients();
    await one.set('d', bytes());
    expect(await other.delete('d')).toBe(true);
    expect(await one.delete('d')).toBe(false);
  });

  it('close ends what is pending, and what comes', async () => {
    const [one] = await clients();
    const pending = expect(one.get('never')).rejects.toMatchObject({ code: 'COLLECTIVE_ABORTED' });
    one.close();
    await pending;
    await expect(one.add('n', 1)).rejects.toMatchObject({ code: 'COLLECTIVE_ABORTED' });
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
      `store at 127.0.0.1:${port}: nobody let us in within 100 ms`,
    );
  });
});
