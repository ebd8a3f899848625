import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** Returns the two ends of a connection, which is closed after the test. `far` does not read yet. */
export async function connectedSockets(): Promise<{ readonly near: Socket; readonly far: Socket }> {
  const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  const { port } = server.address() as AddressInfo;
  const near = connect({ host: '127.0.0.1', port, noDelay: true });
  await once(near, 'connect');
  const [far]: Socket[] = await accepted;
  if (far === undefined) throw new Error('Nobody has connected');
  onTestFinished(() => {
    near.destroy();
    far.destroy();
    server.close();
  });
  return { near, far };
}
