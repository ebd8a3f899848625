import { dtypeNames } from '@shardwise/core/spec';
import type { ConformanceCases } from './conformance-case.ts';
import { range, typed, valuesOf, zeros } from './typed-values.ts';

const HIGHEST_TAG = 2 ** 20 - 1;

/** The greatest difference between the clocks of two threads. */
const CLOCK_DIFFERENCE_MS = 2;

/** Cases of messages between ranks, and of barriers. */
export const pointToPointCases: ConformanceCases = {
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
  'everyone sends to everyone with each tag at a time, also the highest': {
    run: async (group) => {
      const { rank, size } = group;
      const peers = range(size).filter((peer) => peer !== rank);
      const messages = peers.flatMap((peer) => [0, 1, HIGHEST_TAG].map((tag) => ({ peer, tag })));
      const received = messages.map(({ peer, tag }) => {
        const buffer = zeros('i32', 2);
        return { buffer, done: group.recv(buffer, peer, { tag }) };
      });
      const sent = messages
        .toReversed()
        .map(({ peer, tag }) => group.send(typed('i32', [rank, tag]), peer, { tag }));
      await Promise.all([...sent, ...received.map(({ done }) => done)]);
      return received.map(({ buffer }) => valuesOf(buffer));
    },
    expected: (rank, w) =>
      range(w)
        .filter((peer) => peer !== rank)
        .flatMap((peer) => [0, 1, HIGHEST_TAG].map((tag) => [peer, tag])),
  },
  'messages of every dtype': {
    run: async (group) => {
      const sent = dtypeNames.map((dtype) => typed(dtype, [1, 0, 1]));
      const received = dtypeNames.map((dtype) => zeros(dtype, 3));
      if (group.rank === 0) await Promise.all(sent.map((buffer) => group.send(buffer, 1)));
      if (group.rank !== 1) return 'no part';
      await Promise.all(received.map((buffer) => group.recv(buffer, 0)));
      return received.map(valuesOf);
    },
    expected: (rank) => (rank === 1 ? dtypeNames.map(() => [1, 0, 1]) : 'no part'),
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
};

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
