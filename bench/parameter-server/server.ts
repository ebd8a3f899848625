import { randomBytes } from 'node:crypto';
import { parentPort } from 'node:worker_threads';
import { startRequestServer } from '@shardwise/collectives/node';
import { cpu, dist, optim, setRank } from 'shardwise';
import type { ServerAddress } from './messages.ts';

// This thread is the server of one contestant of the parameter-server benchmark.

setRank({ device: await cpu() });
const optimizers = {
  AdamW: (...[groups]: ConstructorParameters<typeof optim.AdamW>) => new optim.AdamW(groups),
};
const { handler } = await dist.servers.createParameterServer({ server: 0, optimizers });
const secret = randomBytes(16).toString('hex');
const { host, port } = await startRequestServer({ secret, handler });
const address: ServerAddress = { host, port, secret };
parentPort?.postMessage(address);
