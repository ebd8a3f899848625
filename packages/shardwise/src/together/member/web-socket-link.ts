import { ALIVE_MS, SILENT_MS } from '../protocol/limits.ts';
import type { Link } from '../protocol/link.ts';
import { encodeMessage } from '../protocol/messages.ts';
import type { ConnectionEvents } from './member-options.ts';

/** Connects to a coordinator by the WebSocket that Node and pages have. A connection that is silent is closed. */
export function webSocketLink(url: string, events: ConnectionEvents): Link {
  const socket = new WebSocket(url);
  socket.binaryType = 'arraybuffer';
  let heardMs = performance.now();
  let isClosed = false;
  const end = (): void => {
    if (isClosed) return;
    isClosed = true;
    clearInterval(timer);
    socket.close();
    events.closed();
  };
  const timer = setInterval(() => {
    // A machine that has slept, or a network that is gone, closes no connection.
    if (performance.now() - heardMs > SILENT_MS) end();
    else if (socket.readyState === WebSocket.OPEN) socket.send(encodeMessage({ kind: 'alive' }));
  }, ALIVE_MS);
  socket.addEventListener('open', () => {
    if (!isClosed) events.opened();
  });
  socket.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
    if (isClosed) return;
    heardMs = performance.now();
    if (typeof data === 'string') events.receive(data);
    else if (data instanceof ArrayBuffer) events.receive(new Uint8Array(data));
  });
  socket.addEventListener('close', end);
  socket.addEventListener('error', end);
  return {
    send(frame) {
      if (socket.readyState !== WebSocket.OPEN) return;
      // A view of shared memory cannot be sent.
      socket.send(typeof frame === 'string' ? frame : frame.slice());
    },
    get bufferedBytes() {
      return socket.bufferedAmount;
    },
    close: end,
  };
}
