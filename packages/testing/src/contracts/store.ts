import { CollectiveAbortedError, CollectiveTimeoutError, ConfigError } from '@shardwise/core/spec';
import type { Store } from '@shardwise/core/spec';
import { equal, matches, rejects } from '../suite/assertions.ts';
import type { Suite } from '../suite/suite.ts';

/** What `storeSuite` tests. */
export interface StoreContract {
  readonly name: string;
  /** Makes a new store. Returns two clients of it, which may be one object, and a function that ends it. */
  readonly open: () => Promise<{
    readonly clients: readonly [Store, Store];
    readonly end: () => void;
  }>;
}

/** The tests of a Store. */
export function storeSuite({ name, open }: StoreContract): Suite {
  return {
    name: `${name} keeps the contract of stores`,
    tests: Object.entries(checks).map(([promise, check]) => ({
      groups: [],
      name: promise,
      run: async () => {
        const { clients, end } = await open();
        try {
          await check(...clients);
        } finally {
          for (const client of clients) client.close();
          end();
        }
      },
    })),
  };
}

const bytes = (...values: readonly number[]): Uint8Array => Uint8Array.from(values);
const MEBIBYTE = 1 << 20;

const checks: Readonly<Record<string, (one: Store, other: Store) => Promise<void>>> = {
  'gives what was set, to whoever asks': async (one, other) => {
    await one.set('key', bytes(1, 2, 3));
    equal([...(await other.get('key'))], [1, 2, 3]);
    await other.set('key', bytes(4));
    equal([...(await one.get('key'))], [4]);
  },
  'keeps values as they were when they were set': async (one, other) => {
    const value = bytes(1);
    await one.set('key', value);
    value.fill(2);
    const found = await other.get('key');
    equal([...found], [1]);
    found.fill(3);
    equal([...(await one.get('key'))], [1]);
  },
  'takes keys of 1 KiB and values of 1 MiB, and refuses longer ones': async (one, other) => {
    const big = new Uint8Array(MEBIBYTE).fill(5);
    await one.set('k'.repeat(1024), big);
    equal(Uint8Array.from(await other.get('k'.repeat(1024))), big);
    const longer = new Uint8Array(MEBIBYTE + 1);
    matches((await rejects(one.set('key', longer), ConfigError)).message, /1048577 bytes/);
    matches((await rejects(one.set('k'.repeat(1025), big), ConfigError)).message, /1025 bytes/);
    await rejects(one.compareSet('key', undefined, longer), ConfigError);
    await rejects(one.get(''), ConfigError);
  },
  'has a get wait until the key is set': async (one, other) => {
    const value = one.get('later');
    await other.set('later', bytes(9));
    equal([...(await value)], [9]);
  },
  'has a wait settle when the last key is set': async (one, other) => {
    let settled = false;
    const all = one.wait(['a', 'b']).then(() => {
      settled = true;
      return settled;
    });
    await other.set('a', bytes());
    // An answer to another call comes after the effects of setting the first key.
    await one.add('calls', 1);
    equal(settled, false, 'settled by the first key');
    await other.set('b', bytes());
    equal(await all, true);
  },
  'names the keys and the limit where a wait ends too late, and goes on': async (one) => {
    const late = await rejects(one.wait(['a', 'b'], { timeoutMs: 20 }), CollectiveTimeoutError);
    matches(late.message, /keys a, b: not set within 20 ms/);
    await rejects(one.get('a', { timeoutMs: 20 }), CollectiveTimeoutError);
    equal(await one.add('calls', 1), 1);
  },
  'ends a wait by its signal': async (one) => {
    const signal = AbortSignal.abort(new Error('enough'));
    matches((await rejects(one.get('a', { signal }))).message, /enough/);
    const controller = new AbortController();
    const pending = rejects(one.wait(['a'], { signal: controller.signal }));
    controller.abort(new Error('no longer wanted'));
    matches((await pending).message, /no longer wanted/);
  },
  'gives each caller of add another number, and get reads the digits': async (one, other) => {
    const sums = await Promise.all([one, other, one, other].map((store) => store.add('n', 1)));
    equal(
      sums.toSorted((a, b) => a - b),
      [1, 2, 3, 4],
    );
    equal(await one.add('n', -4), 0);
    equal(new TextDecoder().decode(await other.get('n')), '0');
  },
  'has a counter be a key that get and wait see': async (one, other) => {
    const waiting = one.wait(['n']);
    await other.add('n', 3);
    await waiting;
    equal(new TextDecoder().decode(await one.get('n')), '3');
  },
  'refuses to add to what is no counter, and what is no integer': async (one) => {
    await one.set('text', new TextEncoder().encode('abc'));
    matches((await rejects(one.add('text', 1))).message, /not a number/);
    await rejects(one.add('n', 0.5), ConfigError);
    await rejects(one.add('n', 2 ** 53), ConfigError);
  },
  'sets by compareSet only what is as expected, and returns what is there': async (one, other) => {
    equal([...(await one.compareSet('c', undefined, bytes(1)))], [1]);
    equal([...(await other.compareSet('c', undefined, bytes(2)))], [1]);
    equal([...(await other.compareSet('c', bytes(1), bytes(3)))], [3]);
    equal([...(await one.compareSet('c', bytes(1), bytes(4)))], [3]);
  },
  'lets one of many have what they all compare': async (one, other) => {
    const claims = [one, other, one, other].map((store, index) =>
      store.compareSet('leader', undefined, bytes(index)),
    );
    const leaders = new Set((await Promise.all(claims)).map(([leader]) => leader));
    equal(leaders.size, 1, 'leaders');
  },
  'says by delete whether there was something': async (one, other) => {
    await one.set('d', bytes());
    equal(await other.delete('d'), true);
    equal(await one.delete('d'), false);
    await rejects(one.get('d', { timeoutMs: 20 }), CollectiveTimeoutError);
  },
  'ends by close what is pending, and what comes': async (one) => {
    const pending = rejects(one.get('never'), CollectiveAbortedError);
    one.close();
    await pending;
    await rejects(one.add('n', 1), CollectiveAbortedError);
    one.close();
  },
};
