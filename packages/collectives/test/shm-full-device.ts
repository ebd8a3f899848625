import { statfsSync } from 'node:fs';
import { closeShmWorld, createShmWorld, joinShmWorld } from '@shardwise/collectives/node';

// Two ranks fill their arenas and add them, on a host whose /dev/shm has no more space.

const ARENA_BYTES = 32 << 20;

const { bavail, bsize } = statfsSync('/dev/shm');
const world = createShmWorld({ size: 2, arenaBytes: ARENA_BYTES });
const ranks = [0, 1].map((rank) => joinShmWorld(world, rank));
const sums = await Promise.all(
  ranks.map(async ({ group, memory, region }) => {
    const { byteOffset, byteLength } = region;
    const values = new Float32Array(memory.buffer, byteOffset, byteLength / 4).fill(group.rank + 1);
    const bytes = new Uint8Array(memory.buffer, byteOffset, byteLength);
    await group.allReduce({ bytes, dtype: 'f32' }, 'sum');
    group.close();
    return [...new Set(values)];
  }),
);
closeShmWorld(world);
console.log(JSON.stringify({ freeBytes: bavail * bsize, sums }));
