import { once } from 'node:events';
import { connect } from 'node:net';

/**
 * Returns the address by which this host reaches another one. The other hosts can reach this host at the same address.
 */
export async function addressTowards(host: string, port: number): Promise<string> {
  const socket = connect({ host, port });
  try {
    await once(socket, 'connect');
    return (socket.localAddress ?? host).replace(/^::ffff:/, '');
  } finally {
    socket.destroy();
  }
}
