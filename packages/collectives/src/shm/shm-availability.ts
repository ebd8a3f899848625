import { closeSync } from 'node:fs';
import { createShmWorld } from './world.ts';

export type ShmAvailability =
  | { readonly available: true }
  | { readonly available: false; readonly reason: string };

/** Whether processes of this host can share memory: on Linux, with the optional package koffi. */
export function shmAvailability(): ShmAvailability {
  try {
    closeSync(createShmWorld({ size: 1, arenaBytes: 1 }).fd);
    return { available: true };
  } catch (error) {
    return { available: false, reason: error instanceof Error ? error.message : String(error) };
  }
}
