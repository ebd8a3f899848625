import { nextTurn } from '../../base/next-turn.ts';

/**
 * Runs the garbage collector if the platform allows it, and waits until finalizers have freed the memory that it
 * found.
 */
export async function collectGarbage(): Promise<void> {
  await collector()?.();
  // Finalizers run in a later turn of the event loop.
  await nextTurn();
  await nextTurn();
}

let nodeCollector: (() => unknown) | undefined;

function collector(): (() => unknown) | undefined {
  if (typeof globalThis.gc === 'function') return globalThis.gc;
  if (nodeCollector === undefined && typeof process !== 'undefined') {
    const builtin = process.getBuiltinModule?.bind(process);
    builtin?.('node:v8').setFlagsFromString('--expose-gc');
    nodeCollector = builtin?.('node:vm').runInNewContext('gc');
  }
  return nodeCollector;
}
