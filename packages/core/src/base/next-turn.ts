/**
 * Calls `callback` in a later turn of the event loop, after timers, input and finalizers that are waiting already.
 * Promises alone never leave the turn.
 */
export const onNextTurn: (callback: () => void) => void =
  typeof setImmediate === 'function' ? (callback) => void setImmediate(callback) : byMessages();

/** Pages have no setImmediate, and a timer would wait for some milliseconds there. */
function byMessages(): (callback: () => void) => void {
  const { port1, port2 } = new MessageChannel();
  const callbacks: (() => void)[] = [];
  port1.addEventListener('message', () => callbacks.shift()?.());
  port1.start();
  return (callback) => {
    callbacks.push(callback);
    port2.postMessage(null);
  };
}

/** Settles in a later turn of the event loop, as `onNextTurn` calls. */
export function nextTurn(): Promise<void> {
  return new Promise(onNextTurn);
}
