import { createThreadsWorld } from '@shardwise/collectives';
import { closeShmWorld, createShmWorld, joinShmWorld } from '@shardwise/collectives/node';

// Prints the lengths of the ranks' arenas when the address space is limited.

const threads = createThreadsWorld({ size: 2 }).regions[0]?.byteLength;
const world = createShmWorld({ size: 1 });
const { group, region } = joinShmWorld(world, 0);
await group.barrier();
group.close();
closeShmWorld(world);
console.log(JSON.stringify({ threads, processes: region.byteLength }));
