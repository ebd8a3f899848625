import { setTimeout as delay } from 'node:timers/promises';
import type { ProcessGroup } from '@shardwise/core/spec';
import { reportOf } from '../../ranks/rank-failure.ts';
import { typed, zeros } from './typed-values.ts';

/** How a call ended, as data. */
export interface CallOutcome {
  /** Of the error; 'fulfilled' where there was none. */
  readonly code: string;
  readonly message: string;
}

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

/** Each ends on every rank with CollectiveMismatchError; rank 1 is the one that differs. */
export const mismatches: Readonly<Record<string, (group: ProcessGroup) => Promise<void>>> = {
  operation: (group) => (group.rank === 1 ? group.barrier() : group.allReduce(one(), 'sum')),
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
};

/** Arguments that a rank refuses by itself, with the code of the error. */
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
  'a gather without output on root': {
    code: 'CONFIG',
    call: (g) => g.gather(one(), g.rank === 0 ? undefined : zeros('f32', g.size), 0),
  },
};

/** What goes wrong on a rank, by name; the contract says what every rank must see. */
export const faults: Readonly<Record<string, Fault>> = {
  'a rank that does not come': async (group) => {
    await group.barrier();
    if (group.rank === 0) {
      await delay(2000);
      return [];
    }
    return outcomesOf([group.allReduce(one(), 'sum', { timeoutMs: 500 })]);
  },
  'a message that does not come': async (group) => {
    await group.barrier();
    if (group.rank === 0) {
      await delay(2000);
      return [];
    }
    return outcomesOf([group.recv(one(), 0, { tag: 3, timeoutMs: 500 })]);
  },
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

/** Every refusal, then a call that shows the group to be sound. */
export async function refuse(group: ProcessGroup): Promise<readonly CallOutcome[]> {
  const outcomes = await outcomesOf(Object.values(refusals).map(({ call }) => call(group)));
  return [...outcomes, ...(await outcomesOf([group.allReduce(one(), 'sum')]))];
}
