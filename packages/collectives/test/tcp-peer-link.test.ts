import { once } from 'node:events';
import { afterEach, expect, test, vi } from 'vitest';
import { PeerLink } from '../src/transports/tcp/peer-link.ts';
import { Wakefulness } from '../src/transports/tcp/wakefulness.ts';
import { connectedSockets } from './connected-sockets.ts';

afterEach(() => vi.useRealTimers());

test('a peer whose connections have closed gets blamed after others had time to tell the reason', async () => {
  const fail = vi.fn<(error: Error) => void>();
  const wakefulness = new Wakefulness();
  const link = new PeerLink({ rank: 0, peer: 1, maxUnexpectedBytes: 1024, wakefulness, fail });
  const [incoming, outgoing] = [await connectedSockets(), await connectedSockets()];
  link.attachIncoming(incoming.near);
  link.attachOutgoing(outgoing.near, new Uint8Array(0));
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const closed = [incoming, outgoing].map(({ near }) => once(near, 'close'));
  for (const { far } of [incoming, outgoing]) far.destroy();
  await Promise.all(closed);
  expect(fail).not.toHaveBeenCalled();
  vi.runAllTimers();
  expect(fail).toHaveBeenCalledTimes(1);
  expect(fail.mock.calls[0]?.[0].message).toContain('its connection was closed');
});
