import type { ProcessGroup } from '../src/spec/process-group.ts';

const unused = (): Promise<never> => Promise.reject(new Error('not in these programs'));

/** A group of two ranks. The other rank always contributes zeros. */
export const groupBesideZeros: ProcessGroup = {
  specificationVersion: 1,
  rank: 0,
  size: 2,
  allReduce: async () => {},
  allGather: async (input, output) => {
    output.bytes.fill(0);
    output.bytes.set(input.bytes);
  },
  reduceScatter: async (input, output) => {
    output.bytes.set(input.bytes.subarray(0, output.bytes.length));
  },
  allToAll: unused,
  broadcast: unused,
  reduce: unused,
  gather: unused,
  scatter: unused,
  barrier: unused,
  send: unused,
  recv: unused,
  split: unused,
  close: () => {},
};
