import { dist } from 'shardwise';

const groups = dist.transports
  .createLoopbackTransports(3)
  .map((transport) => dist.createGroup(transport, { timeoutMs: 300 }));
const comes = groups.slice(0, 2); // rank 2 does not
const outcomes = await Promise.allSettled(
  comes.map(async (group) => {
    const bytes = new Uint8Array(Float32Array.of(1, 2).buffer);
    await group.allReduce({ bytes, dtype: 'f32' }, 'sum');
  }),
);
for (const outcome of outcomes) {
  if (outcome.status === 'rejected') console.log(String(outcome.reason));
}
// prints rank 2
for (const group of groups) group.close();
