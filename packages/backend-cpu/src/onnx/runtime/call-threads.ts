import { threadId } from 'node:worker_threads';
import koffi from 'koffi';

/** What matrix products keep on the stack takes some 100 KiB; koffi gives 128 KiB by default. */
const STACK_BYTES = 4 << 20;
const ENOUGH_STACK_BYTES = 1 << 20;
/** Of Node, where the environment does not say otherwise. */
const DEFAULT_POOL_THREADS = 4;

/**
 * Whether native calls of this thread can run on threads of Node's pool. To be called before the
 * first library is loaded: the size of their stacks is set then.
 */
export function callThreads(): boolean {
  try {
    koffi.config({ async_stack_size: STACK_BYTES });
  } catch {
    // This thread has loaded a library of its own, with stacks that it chose.
  }
  const { async_stack_size: stackBytes = 0 } = koffi.config();
  return stackBytes >= ENOUGH_STACK_BYTES && poolHasRoom();
}

/**
 * All threads of a process share the pool. Where it is smaller than their number, the calls of one
 * would wait for those of another, and it is better to run them in place.
 */
function poolHasRoom(): boolean {
  const threads = Number(process.env['UV_THREADPOOL_SIZE'] ?? DEFAULT_POOL_THREADS);
  return threadId <= threads;
}
