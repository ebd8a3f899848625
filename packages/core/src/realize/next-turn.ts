/**
 * Settles in a later turn of the event loop, when timers, input and finalizers have had theirs: promises
 * alone never leave the turn.
 */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (typeof setImmediate === 'function') {
      setImmediate(resolve);
      return;
    }
    // In a page, where a timer would wait for some milliseconds.
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener('message', () => {
      port1.close();
      resolve();
    });
    port1.start();
    port2.postMessage(null);
  });
}

/**
 * Runs the garbage collector where the platform allows it, and waits until finalizers have freed what it
 * found.
 */
export async function collectGarbage(): Promise<void> {
  await collector()?.();
  // Finalizers run in a turn of their own.
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
