import type { ProcessGroup, TypedBytes } from '@shardwise/core/spec';
import { reportOf } from '../../ranks/rank-failure.ts';
import { typed, zeros } from './typed-values.ts';

/** How a call ended, as data. */
export interface CallOutcome {
  /** The code of the error, or 'fulfilled' if there was none. */
  readonly code: string;
  readonly message: string;
}

/** How long a rank waits for a rank that does not come. */
const TIMEOUT_MS = 300;
/** A limit that is far longer, so that the rank that does not come stays until the others have given up. */
const PRESENT_MS = 30_000;

type Fault = (group: ProcessGroup) => Promise<readonly CallOutcome[]>;

async function outcomesOf(calls: readonly Promise<unknown>[]): Promise<readonly CallOutcome[]> {
  const settled = await Promise.allSettled(calls);
  return settled.map((outcome) => {
    if (outcome.status === 'fulfilled') return { code: 'fulfilled', message: '' };
    const { code, name, message } = reportOf(outcome.reason);
    return { code: code ?? name, message };
  });
}

const one = () => typed('f32', [1]);

/**
 * Has all ranks but rank 0 make a call that waits for rank 0 in vain. Before it, all ranks meet. On a busy machine, a
 * rank may have given up before another one hears that all have come, so the meeting may fail in place of the call.
 */
async function withoutRank0(
  group: ProcessGroup,
  call: () => Promise<unknown>,
): Promise<readonly CallOutcome[]> {
  const met = group.barrier();
  if (group.rank !== 0) return outcomesOf([met.then(call)]);
  await Promise.allSettled([met]);
  // Nobody sends this message, so the end of the group ends the call.
  await Promise.allSettled([group.recv(one(), 1, { tag: 9, timeoutMs: PRESENT_MS })]);
  return [];
}

/** Returns two tensors of two elements that have one element in common. */
function overlapping(): { readonly buffer: TypedBytes; readonly input: TypedBytes } {
  const { bytes, dtype } = zeros('f32', 3);
  return {
    buffer: { bytes: bytes.subarray(4), dtype },
    input: { bytes: bytes.subarray(0, 8), dtype },
  };
}

/** Returns the element of rank `rank` modulo `size`. */
function partOf({ bytes, dtype }: TypedBytes, rank: number, size: number): TypedBytes {
  const start = 4 * (rank % size);
  return { bytes: bytes.subarray(start, start + 4), dtype };
}

/** Calls that must end with CollectiveMismatchError on every rank. Rank 1 is the one that differs. */
export const mismatches: Readonly<Record<string, (group: ProcessGroup) => Promise<void>>> = {
  operation: (group) => (group.rank === 1 ? group.barrier() : group.allReduce(one(), 'sum')),
  'operation, of the same size': (group) =>
    group.rank === 1 ? group.reduce(one(), 0, 'sum') : group.allReduce(one(), 'sum'),
  'number of elements': (group) => group.allReduce(zeros('f32', group.rank === 1 ? 2 : 1), 'sum'),
  dtype: (group) => group.allReduce(zeros(group.rank === 1 ? 'i32' : 'f32', 1), 'sum'),
  root: (group) => group.broadcast(one(), group.rank === 1 ? 1 : 0),
  reduction: (group) => group.allReduce(one(), group.rank === 1 ? 'max' : 'sum'),
  factor: (group) => group.allReduce(one(), { premultipliedSum: group.rank === 1 ? 2 : 3 }),
  splits: (group) => {
    const splits = Array.from({ length: group.size }, () => (group.rank === 1 ? 2 : 1));
    const total = splits.reduce((sum, part) => sum + part, 0);
    return group.allToAll(zeros('f32', total), zeros('f32', total), {
      inputSplits: splits,
      outputSplits: splits,
    });
  },
  'the sum of what it sends': (group) => {
    const splits = Array.from({ length: group.size }, () => (group.rank === 1 ? 2 : 1));
    const total = splits.reduce((sum, part) => sum + part, 0);
    return group.allToAll(zeros('f32', total), zeros('f32', group.size), { inputSplits: splits });
  },
};

/** Calls whose arguments a rank refuses without communication, with the code of the error. */
export const refusals: Readonly<
  Record<
    string,
    { readonly code: string; readonly call: (group: ProcessGroup) => Promise<unknown> }
  >
> = {
  'a root that is no rank': { code: 'CONFIG', call: (g) => g.broadcast(one(), g.size) },
  'a peer that is no rank': { code: 'CONFIG', call: (g) => g.send(one(), g.size) },
  'a message to itself': { code: 'CONFIG', call: (g) => g.send(one(), g.rank) },
  'a negative tag': {
    code: 'CONFIG',
    call: (g) => g.recv(one(), (g.rank + 1) % g.size, { tag: -1 }),
  },
  'a timeout of 0': { code: 'CONFIG', call: (g) => g.barrier({ timeoutMs: 0 }) },
  'an output of another size': {
    code: 'SHAPE',
    call: (g) => g.allGather(one(), zeros('f32', g.size + 1)),
  },
  'an output of another dtype': {
    code: 'DTYPE',
    call: (g) => g.allGather(one(), zeros('i32', g.size)),
  },
  'half an element': {
    code: 'SHAPE',
    call: (g) => g.allReduce({ bytes: new Uint8Array(6), dtype: 'f32' }, 'sum'),
  },
  'bits of floats': { code: 'DTYPE', call: (g) => g.allReduce(one(), 'and') },
  'the average of ints': { code: 'DTYPE', call: (g) => g.allReduce(zeros('i32', 1), 'avg') },
  'a sum of bools': { code: 'DTYPE', call: (g) => g.allReduce(zeros('bool', 1), 'sum') },
  'splits of another sum': {
    code: 'SHAPE',
    call: (g) =>
      g.allToAll(zeros('f32', g.size), zeros('f32', g.size), {
        inputSplits: Array.from({ length: g.size }, () => 2),
      }),
  },
  'splits of too few ranks': {
    code: 'SHAPE',
    call: (g) => g.allToAll(zeros('f32', g.size), zeros('f32', g.size), { outputSplits: [g.size] }),
  },
  'unequal parts without splits': {
    code: 'SHAPE',
    call: (g) => g.allToAll(zeros('f32', g.size + 1), zeros('f32', g.size)),
  },
  'a factor for ints': {
    code: 'DTYPE',
    call: (g) => g.allReduce(zeros('i32', 1), { premultipliedSum: 2 }),
  },
  'a factor that is no number': {
    code: 'DTYPE',
    call: (g) => g.reduce(one(), 0, { premultipliedSum: Number.NaN }),
  },
  'a tag beyond the highest': {
    code: 'CONFIG',
    call: (g) => g.send(one(), (g.rank + 1) % g.size, { tag: 2 ** 20 }),
  },
  'a colour that is no integer': { code: 'CONFIG', call: (g) => g.split(0.5, 0) },
  'an input of another size': {
    code: 'SHAPE',
    call: (g) => g.allReduce(one(), 'sum', { input: zeros('f32', 2) }),
  },
  'an input of another dtype': {
    code: 'DTYPE',
    call: (g) => g.reduce(one(), 0, 'sum', { input: zeros('i32', 1) }),
  },
  'an input that shares bytes with the buffer': {
    code: 'CONFIG',
    call: (g) => {
      const { buffer, input } = overlapping();
      return g.allReduce(buffer, 'sum', { input });
    },
  },
  'a broadcast from bytes of the buffer': {
    code: 'CONFIG',
    call: (g) => {
      const { buffer, input } = overlapping();
      return g.broadcast(buffer, g.rank, { input });
    },
  },
  'an allGather of a part that is not its own': {
    code: 'CONFIG',
    call: (g) => {
      const output = zeros('f32', g.size);
      return g.allGather(partOf(output, g.rank + 1, g.size), output);
    },
  },
  'a reduceScatter to a part that is not its own': {
    code: 'CONFIG',
    call: (g) => {
      const input = zeros('f32', g.size);
      return g.reduceScatter(input, partOf(input, g.rank + 1, g.size), 'sum');
    },
  },
  'a gather of a part that is not its own': {
    code: 'CONFIG',
    call: (g) => {
      const output = zeros('f32', g.size);
      return g.gather(partOf(output, g.rank + 1, g.size), output, g.rank);
    },
  },
  'a scatter to a part that is not its own': {
    code: 'CONFIG',
    call: (g) => {
      const input = zeros('f32', g.size);
      return g.scatter(input, partOf(input, g.rank + 1, g.size), g.rank);
    },
  },
  'an allToAll in place': {
    code: 'CONFIG',
    call: (g) => {
      const buffer = zeros('f32', g.size);
      return g.allToAll(buffer, buffer);
    },
  },
  'a scatter with input elsewhere than on root': {
    code: 'CONFIG',
    call: (g) => g.scatter(zeros('f32', g.size), one(), (g.rank + 1) % g.size),
  },
  'a gather without output on root': {
    code: 'CONFIG',
    call: (g) => g.gather(one(), g.rank === 0 ? undefined : zeros('f32', g.size), 0),
  },
};

/** Faults of a rank, by name. The contract says what every rank must observe. */
export const faults: Readonly<Record<string, Fault>> = {
  'a rank that does not come': (group) =>
    withoutRank0(group, () => group.allReduce(one(), 'sum', { timeoutMs: TIMEOUT_MS })),
  'a message that does not come': (group) =>
    withoutRank0(group, () => group.recv(one(), 0, { tag: 3, timeoutMs: TIMEOUT_MS })),
  'a rank that closes the group with a reason': async (group) => {
    const pending = group.rank === 1 ? [] : [group.allReduce(one(), 'sum'), group.barrier()];
    if (group.rank === 1) group.close(new Error('the disk is full'));
    const outcomes = await outcomesOf(pending);
    return [...outcomes, ...(await outcomesOf([group.barrier()]))];
  },
  'a rank whose signal aborts': async (group) => {
    const signal = group.rank === 1 ? AbortSignal.timeout(50) : undefined;
    if (signal === undefined) return outcomesOf([group.recv(one(), 1)]);
    return outcomesOf([group.recv(one(), 0, { signal })]);
  },
  'a rank that leaves without the others': async (group) => {
    await group.barrier();
    if (group.rank === 1) {
      group.close();
      return [];
    }
    return outcomesOf([group.recv(one(), 1, { timeoutMs: 5000 })]);
  },
  'a message of another size': async (group) => {
    if (group.rank === 0) {
      await Promise.allSettled([group.send(zeros('f32', 3), 1)]);
      return [];
    }
    return group.rank === 1 ? outcomesOf([group.recv(zeros('f32', 4), 0)]) : [];
  },
  'a rank that throws': async (group) => {
    if (group.rank === 1) throw new Error('out of coffee');
    return outcomesOf([group.allReduce(one(), 'sum'), group.barrier()]);
  },
};

export function mismatch(group: ProcessGroup, name: string): Promise<readonly CallOutcome[]> {
  const call = mismatches[name];
  if (call === undefined) throw new RangeError(`No mismatch is called ${name}`);
  return outcomesOf([call(group), group.barrier()]);
}

/** Makes every refused call, then a call that shows that the group still works. */
export async function refuse(group: ProcessGroup): Promise<readonly CallOutcome[]> {
  const outcomes = await outcomesOf(Object.values(refusals).map(({ call }) => call(group)));
  return [...outcomes, ...(await outcomesOf([group.allReduce(one(), 'sum')]))];
}
