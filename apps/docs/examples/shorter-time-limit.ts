import { init } from 'shardwise';

const context = await init({ timeoutMs: 20_000 });
await context.group.barrier();
console.log(`rank ${context.rank} of ${context.worldSize}`); // prints rank 0 of
await context.close();
