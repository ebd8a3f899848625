import { joinShmWorld, type ShmWorld } from '@shardwise/collectives/node';
import type { TypedBytes } from '@shardwise/core/spec';
import type { RankContext } from '@shardwise/testing/ranks';

type Context = RankContext<ShmWorld>;

/** All ranks join and meet once. Then rank 1 is killed while the others wait for it. */
export async function killRank1({ rank, world }: Context): Promise<unknown> {
  const { group } = joinShmWorld(world, rank);
  await group.barrier();
  if (rank === 1) process.kill(process.pid, 'SIGKILL');
  return group.barrier();
}

/** Like killRank1, but rank 1 is stopped. */
export async function stopRank1({ rank, world }: Context): Promise<unknown> {
  const { group } = joinShmWorld(world, rank);
  await group.barrier();
  if (rank === 1) process.kill(process.pid, 'SIGSTOP');
  return group.barrier({ timeoutMs: 500 });
}

/** Rank 1 is killed before it joins. */
export async function killRank1Early({ rank, world }: Context): Promise<unknown> {
  if (rank === 1) process.kill(process.pid, 'SIGKILL');
  return joinShmWorld(world, rank).group.barrier();
}

/** Reduces in an endless loop until rank 0 is killed. */
export async function killRank0AtWork({ rank, world }: Context): Promise<unknown> {
  const { group, memory, region } = joinShmWorld(world, rank);
  const bytes = new Uint8Array(memory.buffer, region.byteOffset, 1 << 20);
  const buffer: TypedBytes = { bytes, dtype: 'f32' };
  await group.barrier();
  if (rank === 0) setTimeout(() => process.kill(process.pid, 'SIGKILL'), 200);
  for (;;) await group.allReduce(buffer, 'sum');
}

/** Only rank 0 comes. */
export async function waitAlone({ rank, world }: Context): Promise<unknown> {
  return rank === 0 ? joinShmWorld(world, rank).group.barrier() : undefined;
}

/** Rank 1 exits normally without closing its group, while the others wait for it. */
export async function exitWithoutClosing({ rank, world }: Context): Promise<unknown> {
  const { group } = joinShmWorld(world, rank);
  await group.barrier();
  if (rank === 1) process.exit(0);
  return group.barrier();
}

/** Rank 2 closes its groups and ends its process. The other ranks meet half a second later. */
export async function leaveOthers({ rank, world }: Context): Promise<unknown> {
  const { group } = joinShmWorld(world, rank);
  const pair = await group.split(rank === 2 ? undefined : 0, rank);
  if (rank === 2) {
    group.close();
    process.exit(0);
  }
  const values = Float32Array.of(1);
  if (rank === 0) await new Promise((resolve) => setTimeout(resolve, 500));
  await pair?.allReduce({ bytes: new Uint8Array(values.buffer), dtype: 'f32' }, 'sum');
  pair?.close();
  group.close();
  return [...values];
}

/** Returns the processor time, in milliseconds, that a rank uses while it waits for one second. */
export async function costOfWaiting({ rank, world }: Context): Promise<unknown> {
  const { group } = joinShmWorld(world, rank);
  await group.barrier();
  const before = process.cpuUsage();
  if (rank === 1) await new Promise((resolve) => setTimeout(resolve, 1000));
  await group.barrier();
  const { user, system } = process.cpuUsage(before);
  group.close();
  return (user + system) / 1000;
}
