import { statSync } from 'node:fs';
import { identityOf, isAlive, type ProcessIdentity } from '../shm/process-identity.ts';
import type { Handle } from './mpi-abi.ts';
import type { MpiCalls } from './mpi-calls.ts';

const FIELDS = 4;

/**
 * The ranks on this host. MPI does not tell when a process has ended. A rank sees this by itself for its
 * neighbours, and sooner than the launcher ends the job.
 */
export class Neighbours {
  /** The number of ranks on this host, this one included. */
  readonly count: number;
  readonly #others: readonly (ProcessIdentity & { readonly rank: number })[];

  /** Waits for the ranks of `communicator`. `rank` is this rank's number in the world. */
  constructor(calls: MpiCalls, communicator: Handle, rank: number) {
    this.count = calls.size(communicator);
    const { pid, startTicks } = identityOf(process.pid);
    const space = processSpace();
    const own = Float64Array.of(rank, pid, startTicks, space);
    const all = new Float64Array(new ArrayBuffer(8 * FIELDS * this.count));
    const request = calls.handleMemory();
    const input = new Uint8Array(own.buffer);
    calls.allGather(input, new Uint8Array(all.buffer), communicator, request);
    while (!calls.test(request));
    this.#others = Array.from({ length: this.count }, (_, index) => {
      const [other = 0, otherPid = 0, ticks = 0, otherSpace = 0] = all.subarray(index * FIELDS);
      return { rank: other, pid: otherPid, startTicks: ticks, space: otherSpace };
    }).filter((other) => other.rank !== rank && other.space === space && space !== 0);
  }

  /** A neighbour whose process has ended. Undefined if all are alive. */
  findDead(): { readonly rank: number; readonly pid: number } | undefined {
    return this.#others.find((other) => !isAlive(other));
  }
}

/**
 * The number of the namespace in which process ids are valid, because another container may use the same ids for other
 * processes. 0 if it is not known.
 */
function processSpace(): number {
  try {
    return statSync('/proc/self/ns/pid').ino;
  } catch {
    return 0;
  }
}
