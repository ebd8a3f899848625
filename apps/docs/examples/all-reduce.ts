import { dist } from 'shardwise';

// Three ranks share one thread, so a message between them is a copy.
const transports = dist.transports.createLoopbackTransports(3);
const groups = transports.map((transport) => dist.createGroup(transport));

await Promise.all(
  groups.map(async (group) => {
    const mine = Float32Array.of(group.rank, 10 * group.rank);
    await group.allReduce({ bytes: new Uint8Array(mine.buffer), dtype: 'f32' }, 'sum');
    console.log(`rank ${group.rank} has ${mine.join(' ')}`);
  }),
);
// prints has 3 30
// prints has 3 30
// prints has 3 30
console.log(`rank 1 sent ${transports[1]?.traffic.messages} messages`); // prints rank 1 sent
