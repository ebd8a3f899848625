import { startStoreServer } from '@shardwise/collectives/node';
import { expect, it } from 'vitest';
import { openStore } from '../src/rendezvous/open-store.ts';
import { freePort } from './command.ts';

it('a store that does not answer its own host in time leaves no server behind, so the process ends', async () => {
  const endpoint = { host: '127.0.0.1', port: await freePort(), secret: 'the secret of a test' };
  // The process is so busy that a handshake takes longer than the limit.
  const moment = new Int32Array(new SharedArrayBuffer(4));
  const busy = setInterval(() => Atomics.wait(moment, 0, 0, 100), 1);
  const opening = openStore({ ...endpoint, jobId: 'job', place: 0, timeoutMs: 1 });
  await expect(opening.finally(() => clearInterval(busy))).rejects.toThrow('did not answer within');
  const server = await startStoreServer(endpoint);
  server.close();
});
