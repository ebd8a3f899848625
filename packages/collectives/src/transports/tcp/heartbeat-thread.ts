import { parentPort, workerData } from 'node:worker_threads';
import { connectPeer, type StreamReader } from '../../wire/connect.ts';
import { encodeFrame } from '../../wire/frame-header.ts';
import type { HeartbeatTask } from './heartbeat-sender.ts';
import { messageKinds } from './message-frame.ts';

// This is the code of the thread that startHeartbeats starts.
const { targets, secret, encrypt, intervalMs, timeoutMs }: HeartbeatTask = workerData;

const spare = new Uint8Array(64);
const ignoring: StreamReader = { target: () => spare, read: () => true };
const heartbeat = encodeFrame(messageKinds.heartbeat, 0);

const sockets = await Promise.all(
  targets.map(({ host, port, hello }) =>
    connectPeer({ host, port, secret, hello, encrypt, timeoutMs }, ignoring),
  ),
);
for (const socket of sockets) {
  // The rank's own thread notices when a peer is gone.
  socket.on('error', () => {}).resume();
}
parentPort?.postMessage('connected');
setInterval(() => {
  for (const socket of sockets) {
    if (socket.writable && socket.writableLength === 0) socket.write(heartbeat);
  }
}, intervalMs);
