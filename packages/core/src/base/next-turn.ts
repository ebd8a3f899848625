/**
 * Settles in a later turn of the event loop, after timers, input and finalizers have run. Promises alone never
 * leave the turn.
 */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (typeof setImmediate === 'function') {
      setImmediate(resolve);
      return;
    }
    // Pages have no setImmediate, and a timer would wait for some milliseconds there.
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener('message', () => {
      port1.close();
      resolve();
    });
    port1.start();
    port2.postMessage(null);
  });
}
