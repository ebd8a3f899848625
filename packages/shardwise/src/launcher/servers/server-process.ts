import { once } from 'node:events';
import { dirname } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { endWithParent, startRequestServer } from '@shardwise/collectives/node';
import { setRank } from '@shardwise/core';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import { createParameterServer } from '@shardwise/parameter-server';
import { connectServers } from '@shardwise/parameter-server/node';
import { fileRows, fileSnapshots } from './server-files.ts';
import { servedOptimizers } from './served-optimizers.ts';
import type { FromServer, ServerPeers, ServerStart, ToServer } from './server-message.ts';

// This is the process of a parameter server. The launcher starts it, and it ends with the launcher.

const send = (message: FromServer): void => void process.send?.(message);

try {
  endWithParent();
  keepGenericWasmWrappers();
  process.on('disconnect', () => process.exit(1));
  const [start]: readonly ToServer[] = await once(process, 'message');
  if (start?.kind === 'start') await serve(start);
} catch (error) {
  send({ kind: 'failed', reason: error instanceof Error ? error.message : String(error) });
  process.exitCode = 1;
  process.disconnect();
}

async function serve(start: ServerStart): Promise<void> {
  const { server, servers, areReplicated, host, port, secret, snapshotPath } = start;
  const { snapshotEveryMs, isAgain, resumes } = start;
  setRank({ device: await cpu() });
  const peers = Promise.withResolvers<ServerPeers['addresses']>();
  const parameters = await createParameterServer({
    server,
    servers,
    optimizers: servedOptimizers,
    snapshots: fileSnapshots(snapshotPath),
    openRows: fileRows(dirname(snapshotPath), server),
    snapshotEveryMs,
    isAgain,
    resumes,
    ...(areReplicated && {
      connect: async (other) =>
        connectServers({ addresses: await peers.promise, secret }).connect(other),
    }),
  });
  const listener = await startRequestServer({ host, port, secret, handler: parameters.handler });
  const stop = async (): Promise<void> => {
    listener.close();
    const { statistics } = parameters;
    await parameters.close();
    process.send?.({ kind: 'stopped', statistics }, () => process.exit(0));
  };
  process.on('message', (message: ToServer) => {
    if (message.kind === 'peers') peers.resolve(message.addresses);
    if (message.kind === 'stop') void stop();
  });
  send({ kind: 'listening', port: listener.port });
}
