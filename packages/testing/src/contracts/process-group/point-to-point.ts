import { setTimeout as delay } from 'node:timers/promises';
import type { ConformanceCase } from './conformance.ts';
import { typed, valuesOf, zeros } from './typed-values.ts';

const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/** Between the clocks of two threads. */
const CLOCK_DIFFERENCE_MS = 2;

/** Messages between ranks, barriers and splits; R = rank, W = size. */
export const pointToPointCases: Readonly<Record<string, ConformanceCase>> = {
  'everyone sends to the next rank and receives from the one before': {
    run: async (group) => {
      const { rank, size } = group;
      if (size === 1) return [0];
      const received = zeros('i32', 1);
      await Promise.all([
        group.send(typed('i32', [rank]), (rank + 1) % size),
        group.recv(received, (rank + size - 1) % size),
      ]);
      return valuesOf(received);
    },
    expected: (rank, w) => [(rank + w - 1) % w],
  },
  'messages of one tag arrive in order': {
    run: async (group) => {
      const buffers = range(200).map((i) => typed('i32', [group.rank === 0 ? i : -1]));
      if (group.rank === 0 && group.size > 1) {
        await Promise.all(buffers.map((buffer) => group.send(buffer, 1)));
      } else if (group.rank === 1) {
        await Promise.all(buffers.map((buffer) => group.recv(buffer, 0)));
      }
      return group.rank === 1 ? buffers.flatMap(valuesOf) : 'no part';
    },
    expected: (rank) => (rank === 1 ? range(200) : 'no part'),
  },
  'tags are received in any order': {
    run: async (group) => {
      if (group.rank === 0 && group.size > 1) {
        await Promise.all(range(5).map((tag) => group.send(typed('i32', [tag]), 1, { tag })));
      }
      if (group.rank !== 1) return 'no part';
      const received: number[] = [];
      for (const tag of [3, 0, 4, 2, 1]) {
        const buffer = zeros('i32', 1);
        await group.recv(buffer, 0, { tag });
        received.push(...valuesOf(buffer));
      }
      return received;
    },
    expected: (rank) => (rank === 1 ? [3, 0, 4, 2, 1] : 'no part'),
  },
  'long and empty messages': {
    run: async (group) => {
      const long = range(200_000).map((i) => i % 256);
      if (group.rank === 0 && group.size > 1) {
        await Promise.all([
          group.send(typed('f32', long), 1),
          group.send(typed('u8', []), 1),
          group.send(typed('u8', [7]), 1),
        ]);
      }
      if (group.rank !== 1) return 'no part';
      const buffers = [zeros('f32', long.length), zeros('u8', 0), zeros('u8', 1)];
      await Promise.all(buffers.map((buffer) => group.recv(buffer, 0)));
      const [values = [], ...others] = buffers.map(valuesOf);
      return [values.filter((value, i) => value === i % 256).length, ...others];
    },
    expected: (rank) => (rank === 1 ? [200_000, [], [7]] : 'no part'),
  },
  'collectives do not wait for messages': {
    run: async (group) => {
      const { rank, size } = group;
      const received = zeros('i32', 1);
      const pending = rank === 1 ? group.recv(received, 0) : undefined;
      await group.barrier();
      if (rank === 0 && size > 1) await group.send(typed('i32', [5]), 1);
      await pending;
      return rank === 1 ? valuesOf(received) : 'no part';
    },
    expected: (rank) => (rank === 1 ? [5] : 'no part'),
  },
  'nobody leaves a barrier before the last one has come': {
    run: async (group) => {
      await delay(10 * group.rank);
      const arrived = performance.timeOrigin + performance.now();
      await group.barrier();
      const left = performance.timeOrigin + performance.now();
      const times = zeros('f64', 2 * group.size);
      await group.allGather(typed('f64', [arrived, left]), times);
      const values = valuesOf(times);
      const lastArrival = Math.max(...values.filter((_, index) => index % 2 === 0));
      const firstLeave = Math.min(...values.filter((_, index) => index % 2 === 1));
      return firstLeave > lastArrival - CLOCK_DIFFERENCE_MS;
    },
    expected: () => true,
  },
  'split by parity, in reverse order': {
    run: async (group) => {
      const { rank } = group;
      const part = await group.split(rank % 2, -rank);
      if (part === undefined) return 'no group';
      const gathered = zeros('i32', part.size);
      await part.allGather(typed('i32', [rank]), gathered);
      const answer = { rank: part.rank, size: part.size, members: valuesOf(gathered) };
      part.close();
      return answer;
    },
    expected: (rank, w) => {
      const members = range(w)
        .filter((other) => other % 2 === rank % 2)
        .reverse();
      return { rank: members.indexOf(rank), size: members.length, members };
    },
  },
  'a rank without a colour is in no group': {
    run: async (group) => {
      const part = await group.split(group.rank === 0 ? undefined : 0, 0);
      const answer = part === undefined ? 'no group' : part.size;
      part?.close();
      return answer;
    },
    expected: (rank, w) => (rank === 0 ? 'no group' : w - 1),
  },
  'parts are split again, and used together with the whole': {
    run: async (group) => {
      const half = await group.split(group.rank < 2 ? 0 : 1, group.rank);
      const single = await half?.split(half.rank, 0);
      if (half === undefined || single === undefined) return 'no group';
      const buffers = [group, half, single].map((part) => ({ part, buffer: typed('i32', [1]) }));
      const reversed = group.rank % 2 === 0 ? buffers : buffers.toReversed();
      await Promise.all(reversed.map(({ part, buffer }) => part.allReduce(buffer, 'sum')));
      single.close();
      half.close();
      return buffers.flatMap(({ buffer }) => valuesOf(buffer));
    },
    expected: (rank, w) => [w, rank < 2 ? Math.min(w, 2) : w - 2, 1],
  },
  'groups are made and closed again and again': {
    run: async (group) => {
      let total = 0;
      for (const round of range(30)) {
        const part = await group.split(0, round % 2 === 0 ? group.rank : -group.rank);
        const buffer = typed('i32', [1]);
        await part?.allReduce(buffer, 'sum');
        total += valuesOf(buffer)[0] ?? 0;
        part?.close();
      }
      return total;
    },
    expected: (_, w) => 30 * w,
  },
};
