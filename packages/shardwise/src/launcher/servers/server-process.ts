import { once } from 'node:events';
import { cpu } from '@shardwise/backend-cpu';
import { endWithParent, startRequestServer } from '@shardwise/collectives/node';
import { setRank } from '@shardwise/core';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import { createParameterServer } from '@shardwise/strategies';
import { servedOptimizers } from './served-optimizers.ts';
import type { FromServer, ServerStart, ToServer } from './server-message.ts';

// The process of a parameter server; the launcher starts it, and it ends with the launcher.

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

async function serve({ server, host, port, secret }: ServerStart): Promise<void> {
  setRank({ device: await cpu() });
  const parameters = createParameterServer({ server, optimizers: servedOptimizers });
  const { handler } = parameters;
  const listener = await startRequestServer({ host, port, secret, handler });
  process.on('message', (message: ToServer) => {
    if (message.kind !== 'stop') return;
    listener.close();
    parameters.close();
    process.send?.({ kind: 'stopped', statistics: parameters.statistics }, () => process.exit(0));
  });
  send({ kind: 'listening', port: listener.port });
}
