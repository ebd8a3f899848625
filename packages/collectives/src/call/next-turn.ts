/** Calls `callback` in the next turn of the event loop, after the events that are waiting already. */
export const nextTurn: (callback: () => void) => void =
  typeof setImmediate === 'function' ? (callback) => void setImmediate(callback) : messageTurns();

/** Uses messages, because browsers delay timers. */
function messageTurns(): (callback: () => void) => void {
  const { port1, port2 } = new MessageChannel();
  const callbacks: (() => void)[] = [];
  port1.addEventListener('message', () => callbacks.shift()?.());
  port1.start();
  return (callback) => {
    callbacks.push(callback);
    port2.postMessage(null);
  };
}
