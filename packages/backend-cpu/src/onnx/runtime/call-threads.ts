import { threadId } from 'node:worker_threads';
import koffi from 'koffi';

/** What matrix products keep on the stack takes some 100 KiB; koffi gives 128 KiB by default. */
const STACK_BYTES = 4 << 20;
const ENOUGH_STACK_BYTES = 1 << 20;
/** Threads of Node's pool, unless the environment says otherwise. */
const DEFAULT_POOL_THREADS = 4;

/** Sets the size of the stacks of native calls. To be called before this thread loads a library. */
export function configureCalls(): void {
  try {
    koffi.config({ async_stack_size: STACK_BYTES });
  } catch {
    // A library is loaded already: one of ours, or one with stacks that its user chose.
  }
}

/** Whether native calls of this thread can run on threads of Node's pool. */
export function callThreads(): boolean {
  configureCalls();
  const { async_stack_size: stackBytes = 0 } = koffi.config();
  return stackBytes >= ENOUGH_STACK_BYTES && poolHasRoom();
}

/**
 * Whether each thread of the process finds a free thread in the pool that they share. Where it is smaller
 * than their number, the calls of one would wait for those of another, and it is better to run them in place.
 */
function poolHasRoom(): boolean {
  const threads = Number(process.env['UV_THREADPOOL_SIZE'] ?? DEFAULT_POOL_THREADS);
  return threadId <= threads;
}
