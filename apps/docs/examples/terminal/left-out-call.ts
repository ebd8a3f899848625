import { init } from 'shardwise';

const context = await init();
const { rank, group } = context;

async function reduceGradients(): Promise<void> {
  await group.allReduce({ bytes: new Uint8Array(4 * 4096), dtype: 'f32' }, 'sum');
}

async function waitForAll(): Promise<void> {
  await group.barrier();
}

for (let step = 1; step <= 4; step += 1) {
  const isEmpty = rank === 1 && step === 3; // rank 1 has no batch left
  if (!isEmpty) await reduceGradients();
  await waitForAll();
}
await context.close();
