import type { ProcessGroup } from '@shardwise/core/spec';
import type { ConformanceCases } from './conformance-case.ts';
import { range, typed, valuesOf, zeros } from './typed-values.ts';

/** Cases of groups that consist of some ranks of a group. */
export const subGroupCases: ConformanceCases = {
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
  'equal keys leave the ranks in their order': {
    run: async (group) => {
      const part = await group.split(3, 7);
      if (part === undefined) return 'no group';
      const answer = [part.rank, part.size];
      part.close();
      return answer;
    },
    expected: (rank, w) => [rank, w],
  },
  'ranks without a colour go on with the others': {
    run: async (group) => {
      const part = await group.split(group.rank === 1 ? 0 : undefined, 0);
      const buffer = typed('i32', [1]);
      await group.allReduce(buffer, 'sum');
      part?.close();
      return [part?.size ?? 'no group', ...valuesOf(buffer)];
    },
    expected: (rank, w) => [rank === 1 ? 1 : 'no group', w],
  },
  'three groups deep, each half of the one before': {
    run: async (group) => {
      const groups: ProcessGroup[] = [group];
      for (const _ of range(3)) {
        const whole = groups.at(-1) ?? group;
        const half = await whole.split(whole.rank < whole.size / 2 ? 0 : 1, whole.rank);
        if (half !== undefined) groups.push(half);
      }
      const sums = groups.map((part) => ({ part, buffer: typed('i32', [1]) }));
      await Promise.all(sums.map(({ part, buffer }) => part.allReduce(buffer, 'sum')));
      for (const part of groups.slice(1).toReversed()) part.close();
      return sums.flatMap(({ buffer }) => valuesOf(buffer));
    },
    expected: (rank, w) => {
      const sizes = [w];
      let [place, size] = [rank, w];
      for (const _ of range(3)) {
        const lower = Math.ceil(size / 2);
        [place, size] = place < lower ? [place, lower] : [place - lower, size - lower];
        sizes.push(size);
      }
      return sizes;
    },
  },
  'messages of a group and of its part do not mix': {
    run: async (group) => {
      const part = await group.split(group.rank < 2 ? 0 : undefined, -group.rank);
      if (part === undefined || part.size === 1) return 'no part';
      // Rank 1 of the part is rank 0 of the group.
      const buffers = [zeros('i32', 1), zeros('i32', 1)];
      const [inGroup = zeros('i32', 1), inPart = zeros('i32', 1)] = buffers;
      if (group.rank === 0) {
        await Promise.all([part.send(typed('i32', [2]), 0), group.send(typed('i32', [1]), 1)]);
      } else {
        await Promise.all([group.recv(inGroup, 0), part.recv(inPart, 1)]);
      }
      part.close();
      return buffers.flatMap(valuesOf);
    },
    expected: (rank, w) =>
      (w === 1
        ? undefined
        : [
            [0, 0],
            [1, 2],
          ][rank]) ?? 'no part',
  },
};
