/** Settles when what waits in the event loop has had its turn. Timers of pages would take milliseconds. */
export function nextTurn(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (typeof setImmediate === 'function') {
    setImmediate(resolve);
    return promise;
  }
  const { port1, port2 } = new MessageChannel();
  port1.addEventListener('message', () => {
    port1.close();
    resolve();
  });
  port1.start();
  port2.postMessage(null);
  return promise;
}
