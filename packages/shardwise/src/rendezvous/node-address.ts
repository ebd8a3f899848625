import { once } from 'node:events';
import { connect } from 'node:net';

/** The address by which this host reaches another one; it is there that the others reach this one. */
export async function addressTowards(host: string, port: number): Promise<string> {
  const socket = connect({ host, port });
  try {
    await once(socket, 'connect');
    return (socket.localAddress ?? host).replace(/^::ffff:/, '');
  } finally {
    socket.destroy();
  }
}
