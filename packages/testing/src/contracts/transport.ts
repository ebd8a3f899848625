import { CollectiveError, CollectiveMismatchError } from '@shardwise/core/spec';
import type { Transport } from '@shardwise/core/spec';
import { equal, holds, matches, rejects } from '../suite/assertions.ts';
import type { Suite } from '../suite/suite.ts';

/** What `transportSuite` tests. */
export interface TransportContract {
  readonly name: string;
  /** Makes a new world, all on this thread. The end of rank r is at index r. */
  readonly open: (size: number) => Promise<readonly Transport[]>;
  /** Makes a rank disappear without a message. Default: this is not tested. */
  readonly lose?: (ends: readonly Transport[], rank: number) => Promise<void>;
}

type Ends = readonly [Transport, Transport, Transport];

/** How long a test waits to see that a call stays pending. */
const PENDING_MS = 50;

/**
 * The tests of a Transport: order, lengths, and how calls end. A ProcessGroup relies on these. To test ranks on
 * threads or hosts, use processGroupSuite with the groups that `createGroup` makes of the transports.
 */
export function transportSuite({ name, open, lose }: TransportContract): Suite {
  const promises: Record<string, (ends: Ends) => Promise<void>> =
    lose === undefined
      ? checks
      : {
          ...checks,
          'a peer that is lost is the cause of the calls that wait for it': async (ends) => {
            const [one, , three] = ends;
            const pending = rejects(one.recv(2, 0, new Uint8Array(1)), CollectiveError);
            await lose(ends, three.rank);
            const { rank, abortedBy = rank } = (await pending).fields;
            equal(abortedBy, three.rank, 'the rank in the fields');
          },
        };
  return {
    name: `${name} keeps the contract of transports`,
    tests: Object.entries(promises).map(([promise, check]) => ({
      groups: [],
      name: promise,
      run: async () => {
        const ends = await open(3);
        const [one, two, three] = ends;
        holds(one !== undefined && two !== undefined && three !== undefined, 'a world of 3 ranks');
        try {
          await check([one, two, three]);
        } finally {
          for (const end of ends) end.close();
        }
      },
    })),
  };
}

const checks: Readonly<Record<string, (ends: Ends) => Promise<void>>> = {
  'each end implements this version of the interface': async (ends) => {
    for (const end of ends) equal(end.specificationVersion, 1);
  },
  'each end knows its rank and the size of the world': async (ends) => {
    equal(
      ends.map(({ rank, size }) => [rank, size]),
      [
        [0, 3],
        [1, 3],
        [2, 3],
      ],
    );
  },
  'messages of one tag arrive in order': async ([one, two]) => {
    const values = Array.from({ length: 200 }, (_, index) => index);
    const sent = values.map((value) => one.send(1, 7, Uint8Array.of(value)));
    const received = values.map(() => new Uint8Array(1));
    await Promise.all([...sent, ...received.map((bytes) => two.recv(0, 7, bytes))]);
    equal(
      received.map(([value]) => value),
      values,
    );
  },
  'messages of different tags, and of different ranks, pass each other': async (ends) => {
    const [one, two, three] = ends;
    const sent = Promise.all([
      ...[0, 1, 2].map((tag) => one.send(2, tag, Uint8Array.of(tag))),
      two.send(2, 1, Uint8Array.of(9)),
    ]);
    const received = [];
    for (const [from, tag] of [
      [1, 1],
      [0, 2],
      [0, 0],
      [0, 1],
    ] as const) {
      received.push(await takeByte(three, from, tag));
    }
    await sent;
    equal(received, [9, 2, 0, 1]);
  },
  'a receive may come before its message': async ([one, two]) => {
    const received = takeByte(two, 0, 3);
    await one.send(1, 3, Uint8Array.of(5));
    equal(await received, 5);
  },
  'empty messages and long ones arrive as they were sent': async ([one, two]) => {
    for (const byteLength of [0, 1, 3, 65_537, (1 << 22) + 5]) {
      const bytes = Uint8Array.from({ length: byteLength }, (_, index) => (index * 7 + 1) % 251);
      const received = new Uint8Array(byteLength);
      await Promise.all([one.send(1, 0, bytes), two.recv(0, 0, received)]);
      equal(received, bytes, `${byteLength} bytes`);
    }
  },
  'parts of larger memory are sent and filled, and nothing beside them': async ([one, two]) => {
    const source = Uint8Array.of(1, 2, 3, 4, 5);
    const target = new Uint8Array(5).fill(9);
    await Promise.all([
      one.send(1, 0, source.subarray(1, 4)),
      two.recv(0, 0, target.subarray(2, 5)),
    ]);
    equal([...target], [9, 9, 2, 3, 4]);
  },
  'bytes may be used again as soon as a send has settled': async ([one, two]) => {
    const bytes = Uint8Array.of(7);
    const received = new Uint8Array(1);
    const arrived = two.recv(0, 0, received);
    await one.send(1, 0, bytes);
    bytes.fill(8);
    await arrived;
    equal([...received], [7]);
  },
  'all pairs of ranks send both ways at once': async (ends) => {
    const calls = ends.flatMap((end) =>
      ends
        .filter((peer) => peer !== end)
        .map(async (peer) => {
          const [sent, received] = [
            new Uint8Array(100_000).fill(end.rank),
            new Uint8Array(100_000),
          ];
          await Promise.all([end.send(peer.rank, 0, sent), end.recv(peer.rank, 0, received)]);
          equal(received, new Uint8Array(100_000).fill(peer.rank), `${peer.rank} to ${end.rank}`);
        }),
    );
    await Promise.all(calls);
  },
  'a message of another length than its receiver expects is a mismatch': async ([one, two]) => {
    const received = rejects(two.recv(0, 0, new Uint8Array(4)), CollectiveMismatchError);
    await Promise.allSettled([one.send(1, 0, new Uint8Array(3)), received]);
    await received;
  },
  'a reason to close ends what is pending and what comes, on every rank': async (ends) => {
    const [one, two, three] = ends;
    const pending = [one, three].map((end) => rejects(end.recv(1, 0, new Uint8Array(1))));
    two.close(new Error('the disk is full'));
    for (const { message } of await Promise.all(pending)) matches(message, /the disk is full/);
    for (const end of ends) {
      const peer = (end.rank + 1) % 3;
      const { message } = await rejects(end.recv(peer, 1, new Uint8Array(1)));
      matches(message, /the disk is full/, `rank ${end.rank}, later`);
    }
  },
  'a rank that leaves ends the calls that wait for it, and no others': async (ends) => {
    const [one, two, three] = ends;
    const concerned = rejects(one.recv(2, 0, new Uint8Array(1)), CollectiveError);
    const other = takeByte(one, 1, 0);
    three.close();
    matches((await concerned).message, /rank 2/);
    await two.send(0, 0, Uint8Array.of(4));
    equal(await other, 4);
    await rejects(one.recv(2, 1, new Uint8Array(1)), CollectiveError);
  },
  'what a rank has sent before it left stays receivable': async ([one, two]) => {
    const sent = Promise.all([1, 2].map((value) => two.send(0, 5, Uint8Array.of(value))));
    // Some sends settle only when their message is received. In that case closing would lose the messages.
    if (await settlesSoon(sent)) two.close();
    equal([await takeByte(one, 1, 5), await takeByte(one, 1, 5)], [1, 2]);
    await sent;
    two.close();
    await rejects(one.recv(1, 5, new Uint8Array(1)), CollectiveError);
  },
  'closing twice does nothing': async ([one, two, three]) => {
    three.close();
    three.close(new Error('too late'));
    const [, received] = await Promise.all([one.send(1, 0, Uint8Array.of(6)), takeByte(two, 0, 0)]);
    equal(received, 6);
  },
  'a call stays pending for as long as its message does not come': async ([one, two]) => {
    const received = takeByte(two, 0, 0);
    equal(await settlesSoon(received), false, 'settled');
    await one.send(1, 0, Uint8Array.of(3));
    equal(await received, 3);
  },
};

function settlesSoon(call: Promise<unknown>): Promise<boolean> {
  const late = new Promise<boolean>((resolve) => {
    setTimeout(() => resolve(false), PENDING_MS);
  });
  return Promise.race([call.then(() => true), late]);
}

async function takeByte(end: Transport, from: number, tag: number): Promise<number | undefined> {
  const bytes = new Uint8Array(1);
  await end.recv(from, tag, bytes);
  return bytes[0];
}
