import {
  allGatherCoalesced,
  allGatherObject,
  allReduceCoalesced,
  batchSendRecv,
  broadcastCoalesced,
  broadcastObject,
  createMesh,
  gatherObject,
  monitoredBarrier,
  newGroup,
  newGroups,
  recvObject,
  reduceScatterCoalesced,
  scatterObject,
  sendObject,
  type PlainData,
  type SendOrRecv,
} from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/spec';
import { typed, valuesOf, zeros, type ConformanceCases } from '@shardwise/testing/ranks';

const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
const factorial = (n: number): number => (n <= 1 ? 1 : n * factorial(n - 1));
const triangle = (n: number): number => (n * (n + 1)) / 2;

/** A value that does not fit a call's first message. */
const long = (rank: number): string => `${rank},`.repeat(5000);

const objectOf = (rank: number): PlainData => ({
  foo: rank,
  nested: [{ rank }, null, undefined, [true, -0.5, 2n ** 40n], 'ü'.repeat(rank)],
  weights: Float32Array.of(rank, 0.5),
});

async function sums(group: ProcessGroup): Promise<readonly number[]> {
  const buffer = typed('i32', [group.rank, 1]);
  await group.allReduce(buffer, 'sum');
  return valuesOf(buffer);
}

/** The results of functions over a ProcessGroup in closed form. R is the rank and W is the size. */
export const operationCases: ConformanceCases = {
  'allGatherObject of plain data, short and long': {
    run: async (group) => {
      const short = await allGatherObject(group, objectOf(group.rank));
      const mixed = await allGatherObject(group, group.rank % 2 === 0 ? long(group.rank) : 'short');
      return [short, mixed];
    },
    expected: (_, w) => [
      range(w).map(objectOf),
      range(w).map((rank) => (rank % 2 === 0 ? long(rank) : 'short')),
    ],
  },
  'broadcastObject from each root': {
    run: async (group) => {
      const objects: PlainData[] = [];
      for (const root of range(group.size)) {
        const value = group.rank === root ? [objectOf(root), long(root)] : 'no part';
        objects.push(await broadcastObject(group, value, root));
      }
      return objects;
    },
    expected: (_, w) => range(w).map((root) => [objectOf(root), long(root)]),
  },
  'gatherObject gives them to the root only': {
    run: async (group) => {
      const root = group.size - 1;
      const short = await gatherObject(group, { foo: group.rank }, root);
      const mixed = await gatherObject(group, group.rank === 0 ? long(0) : group.rank, root);
      return [short, mixed];
    },
    expected: (rank, w) =>
      rank === w - 1
        ? [
            range(w).map((foo) => ({ foo })),
            range(w).map((other) => (other === 0 ? long(0) : other)),
          ]
        : [undefined, undefined],
  },
  'scatterObject gives each rank its own': {
    run: async (group) => {
      const root = group.size - 1;
      const isRoot = group.rank === root;
      const short = isRoot ? range(group.size).map(objectOf) : undefined;
      const mixed = range(group.size).map((rank) => (rank === 0 ? long(0) : rank));
      return [
        await scatterObject(group, short, root),
        await scatterObject(group, isRoot ? mixed : undefined, root),
      ];
    },
    expected: (rank) => [objectOf(rank), rank === 0 ? long(0) : rank],
  },
  'sendObject and recvObject along the ranks': {
    run: async (group) => {
      const { rank, size } = group;
      const received =
        rank === 0
          ? []
          : [
              await recvObject(group, rank - 1, { tag: 4 }),
              await recvObject(group, rank - 1, { tag: 4 }),
            ];
      if (rank + 1 < size) {
        await sendObject(group, objectOf(rank), rank + 1, { tag: 4 });
        await sendObject(group, long(rank), rank + 1, { tag: 4 });
      }
      return received;
    },
    expected: (rank) => (rank === 0 ? [] : [objectOf(rank - 1), long(rank - 1)]),
  },
  'what a rank cannot send fails on every rank, and the group goes on': {
    run: async (group) => {
      const value = group.rank === group.size - 1 ? { train: () => 1 } : 1;
      const codes: unknown[] = [];
      const calls = [
        () => allGatherObject(group, value),
        () => gatherObject(group, value, 0),
        () => broadcastObject(group, value, group.size - 1),
        () => scatterObject(group, [value], group.size - 1),
        () => allGatherObject(group, long(group.rank), { maxBytes: 1000 }),
      ];
      for (const call of calls) {
        const outcome = await call().catch((error: unknown) => error);
        codes.push(outcome instanceof Error && 'code' in outcome ? outcome.code : outcome);
      }
      return [codes, await sums(group)];
    },
    expected: (rank, w) => {
      const code = rank === w - 1 ? 'CONFIG' : 'COLLECTIVE';
      return [
        [code, code, code, code, 'CONFIG'],
        [triangle(w - 1), w],
      ];
    },
  },
  'allReduceCoalesced sum of [R+1] and [(R+1)^2]': {
    run: async (group) => {
      const r = group.rank;
      const buffers = [typed('f32', [r + 1]), typed('f32', [(r + 1) ** 2]), typed('i64', [r])];
      await allReduceCoalesced(group, buffers, 'sum');
      return buffers.map(valuesOf);
    },
    expected: (_, w) => [[triangle(w)], [(w * (w + 1) * (2 * w + 1)) / 6], [triangle(w - 1)]],
  },
  'allReduceCoalesced product, min and max': {
    run: async (group) => {
      const r = group.rank;
      const product = [typed('f64', [r + 1]), typed('f64', [r + 2])];
      const min = [typed('f32', [r]), typed('f32', [r + 1])];
      const max = [typed('bf16', [r + 1]), typed('bf16', [r + 2])];
      await Promise.all([
        allReduceCoalesced(group, product, 'product'),
        allReduceCoalesced(group, min, 'min'),
        allReduceCoalesced(group, max, 'max'),
      ]);
      return [product, min, max].map((buffers) => buffers.flatMap(valuesOf));
    },
    expected: (_, w) => [
      [factorial(w), factorial(w + 1)],
      [0, 1],
      [w, w + 1],
    ],
  },
  'allReduceCoalesced of short, empty and long buffers': {
    run: async (group) => {
      const buffers = [1, 0, 40_000, 3].map((count) =>
        typed(
          'f32',
          range(count).map((i) => (i % 100) + group.rank),
        ),
      );
      await allReduceCoalesced(group, buffers, 'avg');
      return buffers.map((buffer) => valuesOf(buffer).slice(-3));
    },
    expected: (_, w) => {
      const mean = (w - 1) / 2;
      return [[mean], [], [97 + mean, 98 + mean, 99 + mean], [mean, 1 + mean, 2 + mean]];
    },
  },
  'broadcastCoalesced of buffers of several dtypes': {
    run: async (group) => {
      const root = group.size - 1;
      const buffers = [
        typed('u8', [group.rank]),
        typed('f32', [group.rank, 1]),
        typed('u8', [7, group.rank]),
      ];
      await broadcastCoalesced(group, buffers, root);
      return buffers.map(valuesOf);
    },
    expected: (_, w) => [[w - 1], [w - 1, 1], [7, w - 1]],
  },
  'allGatherCoalesced keeps the outputs apart': {
    run: async (group) => {
      const inputs = [
        typed('i32', [group.rank]),
        typed('i32', [10 * group.rank, 10 * group.rank + 1]),
        typed('f64', [0.5]),
      ];
      const outputs = [1, 2].map((count) => zeros('i32', count * group.size));
      outputs.push(zeros('f64', group.size));
      await allGatherCoalesced(group, inputs, outputs);
      return outputs.map(valuesOf);
    },
    expected: (_, w) => [
      range(w),
      range(w).flatMap((rank) => [10 * rank, 10 * rank + 1]),
      range(w).map(() => 0.5),
    ],
  },
  'reduceScatterCoalesced of inputs that are no multiples of W': {
    run: async (group) => {
      const { rank, size } = group;
      const counts = [6, 4, 1, 3 * size];
      const inputs = counts.map((count) => typed('f32', range(count)));
      const outputs = counts.map((count) => {
        const chunk = Math.ceil(count / size);
        return zeros('f32', Math.min(chunk, Math.max(count - rank * chunk, 0)));
      });
      await reduceScatterCoalesced(group, inputs, outputs, 'sum');
      return outputs.map(valuesOf);
    },
    expected: (rank, w) =>
      [6, 4, 1, 3 * w].map((count) => {
        const chunk = Math.ceil(count / w);
        return range(count)
          .slice(rank * chunk, (rank + 1) * chunk)
          .map((value) => w * value);
      }),
  },
  'batchSendRecv of messages to everyone, in any order': {
    run: async (group) => {
      const { rank, size } = group;
      const peers = range(size).filter((peer) => peer !== rank);
      const buffers = peers.map(() => zeros('i32', 1));
      const messages: SendOrRecv[] = [];
      for (const [index, peer] of peers.entries()) {
        const buffer = buffers[index] ?? zeros('i32', 1);
        messages.push({ operation: 'recv', buffer, peer, tag: 2 });
        messages.push({ operation: 'send', buffer: typed('i32', [rank]), peer, tag: 2 });
      }
      await batchSendRecv(group, rank % 2 === 0 ? messages : messages.toReversed());
      return buffers.flatMap(valuesOf);
    },
    expected: (rank, w) => range(w).filter((peer) => peer !== rank),
  },
  'newGroup sorts its ranks, and who is not among them has none': {
    run: async (group) => {
      const part = await newGroup(group, [group.size - 1, ...(group.size > 2 ? [0] : [])]);
      if (part === undefined) return 'no group';
      const objects = await allGatherObject(part, group.rank);
      const answer = { rank: part.rank, objects };
      part.close();
      return answer;
    },
    expected: (rank, w) => {
      const members = w > 2 ? [0, w - 1] : [w - 1];
      return members.includes(rank)
        ? { rank: members.indexOf(rank), objects: members }
        : 'no group';
    },
  },
  'newGroups gives each rank the one that it is in': {
    run: async (group) => {
      const even = range(group.size).filter((rank) => rank % 2 === 0);
      const odd = range(group.size).filter((rank) => rank % 2 === 1);
      const lists = odd.length > 0 ? [odd.toReversed(), even] : [even];
      const part = await newGroups(group, lists);
      if (part === undefined) return 'no group';
      const members = await allGatherObject(part, group.rank);
      part.close();
      return members;
    },
    expected: (rank, w) => range(w).filter((other) => other % 2 === rank % 2),
  },
  'monitoredBarrier that all pass, and again': {
    run: async (group) => {
      await monitoredBarrier(group, { timeoutMs: 20_000 });
      await monitoredBarrier(group);
      return sums(group);
    },
    expected: (_, w) => [triangle(w - 1), w],
  },
  'createMesh: the last axis is fastest': {
    run: async (group) => {
      const inner = group.size % 2 === 0 ? 2 : 1;
      const mesh = await createMesh(group, [
        { name: 'dp', size: group.size / inner },
        { name: 'tp', size: inner },
      ]);
      const gathered: unknown[] = [];
      for (const { name } of mesh.axes) {
        const members = await allGatherObject(mesh.group(name), group.rank);
        gathered.push([mesh.coordinate(name), members]);
      }
      const whole = (await mesh.flatten(['dp', 'tp'], 'all')).group('all');
      return [...gathered, [whole.rank, whole.size]];
    },
    expected: (rank, w) => {
      const inner = w % 2 === 0 ? 2 : 1;
      const row = Math.floor(rank / inner);
      const column = rank % inner;
      return [
        [row, range(w / inner).map((other) => other * inner + column)],
        [column, range(inner).map((other) => row * inner + other)],
        [rank, w],
      ];
    },
  },
};
