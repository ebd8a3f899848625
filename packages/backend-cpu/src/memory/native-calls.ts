import { availableParallelism } from 'node:os';
import { threadId } from 'node:worker_threads';
import koffi from 'koffi';

/** Matrix products keep some 100 KiB on the stack. koffi's default is 128 KiB. */
const STACK_BYTES = 4 << 20;
const ENOUGH_STACK_BYTES = 1 << 20;
/** The number of threads in Node's pool, if the environment does not set it. */
const DEFAULT_POOL_THREADS = 4;

/** Sets the stack size of native calls. Must be called before this thread loads a library. */
export function configureCalls(): void {
  try {
    koffi.config({ async_stack_size: STACK_BYTES });
  } catch {
    // A library has been loaded before: by us, or by the user, who chose the stack size.
  }
}

/** Whether native calls of this thread can run on threads of Node's pool. */
export function callThreads(): boolean {
  configureCalls();
  const { async_stack_size: stackBytes = 0 } = koffi.config();
  return stackBytes >= ENOUGH_STACK_BYTES && poolHasRoom();
}

/**
 * Whether every thread of the process finds a free thread in the pool that they share. If the process has more threads
 * than the pool, the calls of one would wait for those of another, so it is better to run them in place.
 */
function poolHasRoom(): boolean {
  return threadId <= poolThreads();
}

/**
 * Whether a core of this host stays free while each of its ranks computes with this many threads. Where none does, a
 * computation that is handed to the pool does not run beside the thread that waits for it, but pays for the hand-over: the
 * system often wakes the pool's thread on a core that is busy. `shardwise` tells each rank how many ranks the host has, as
 * torchrun does. Otherwise there is one.
 */
export function hasFreeCore(threads: number): boolean {
  const ranks = Number(process.env['LOCAL_WORLD_SIZE'] ?? 1);
  return ranks * threads < availableParallelism();
}

/** The number of threads in Node's pool, which all threads of the process share. */
export function poolThreads(): number {
  return Number(process.env['UV_THREADPOOL_SIZE'] ?? DEFAULT_POOL_THREADS);
}
