import { once } from 'node:events';
import { connectStore, measureAlgorithms, tcpTransport } from '@shardwise/collectives/node';
import type { TuneTask } from './tune.ts';

// This process measures the algorithms together with the others, and reports its measurements.

const [task]: TuneTask[] = await once(process, 'message');
if (task === undefined) throw new TypeError('The process was told nothing');
const { rank, size, port, secret, sizesBytes, rounds, hosts } = task;
const store = await connectStore({ host: '127.0.0.1', port, secret });
const transport = await tcpTransport({ store, rank, size, secret });
const measurements = await measureAlgorithms(transport, { hosts, sizesBytes, rounds });
process.send?.(measurements, undefined, undefined, () => {
  transport.close();
  store.close();
  process.disconnect();
});
