import { randomBytes } from 'node:crypto';
import { closeSync } from 'node:fs';
import { checkOptions } from '@shardwise/core/base';
import { ConfigError } from '@shardwise/core/spec';
import {
  allocateWorld,
  initializeWorld,
  type WorldOptions,
  worldRules,
} from '../shared-memory/world-size.ts';
import { linuxCalls } from './linux-calls.ts';
import { memoryFileName } from './open-memory-file.ts';
import { identityOf } from './process-identity.ts';

/**
 * The processes of one host and the memory that they share. It is plain data; give it to the ranks in a message
 * or, as JSON, in a variable of their environment.
 */
export interface ShmWorld {
  /** A name for the memory, so that it cannot be confused with another one. */
  readonly id: string;
  readonly size: number;
  /** The length of each rank's region. It is a multiple of 64 KiB. */
  readonly arenaBytes: number;
  /** The process that made the world. While ranks join, it holds the memory as descriptor `fd`. */
  readonly pid: number;
  readonly startTicks: number;
  readonly fd: number;
}

/**
 * Makes the memory for `size` processes, each with an arena of `arenaBytes`. By default the arenas share out
 * three quarters of the machine's memory, at most 16 GiB, or less if the address space has no room for it.
 * Pages cost nothing until they are used. The kernel keeps the memory, so /dev/shm needs no room for it. The
 * process that starts the ranks calls this, and must live longer than they do: if it ends, ranks that wait for
 * others fail. Throws ConfigError for options that do not fit, and if shmAvailability says that shared memory
 * is not available.
 */
export function createShmWorld(options: WorldOptions): ShmWorld {
  checkOptions('createShmWorld', options, worldRules);
  // The ranks map all of the memory, for which their address space has as much room as that of this process.
  const { memory, size } = allocateWorld(options);
  const id = randomBytes(16).toString('hex');
  const calls = linuxCalls();
  const fd = calls.createMemoryFile(memoryFileName(id), size.byteLength);
  try {
    calls.mapOver(memory, fd);
    initializeWorld(memory, size.map);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  const { arenaBytes } = size;
  return { id, size: options.size, arenaBytes, ...identityOf(process.pid), fd };
}

/**
 * Releases the launcher's hold on the memory. After that, nobody can join, and the kernel frees the memory when
 * the last rank has ended. Throws ConfigError in another process than the one that made the world.
 */
export function closeShmWorld(world: ShmWorld): void {
  if (world.pid === process.pid) {
    closeSync(world.fd);
    return;
  }
  throw new ConfigError(
    {
      asked: `Process ${process.pid} closing a world`,
      found: `process ${world.pid} has made it`,
      todo: 'Close groups on the ranks, and the world where it was made',
    },
    { pid: process.pid, madeBy: world.pid },
  );
}

/** Whether processes can share memory, and if not, why. */
export type ShmAvailability =
  | { readonly available: true }
  | { readonly available: false; readonly reason: string };

/** Whether processes of this host can share memory. It needs Linux and the optional package koffi. */
export function shmAvailability(): ShmAvailability {
  try {
    closeSync(createShmWorld({ size: 1, arenaBytes: 1 }).fd);
    return { available: true };
  } catch (error) {
    return { available: false, reason: error instanceof Error ? error.message : String(error) };
  }
}
