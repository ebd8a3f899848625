import type { HeldChunk } from '@shardwise/core/extend';
import { z } from 'zod';
import type { CheckpointFiles } from '../places/checkpoint-files.ts';

/** Buffers that are not the same on all ranks, and the first two ranks between which one differs. */
export interface DifferentBuffers {
  readonly names: readonly string[];
  readonly ranks: readonly [number, number];
}

/** The checksums of one rank's buffers, by name. */
export const checksumsSchema: z.ZodType<Readonly<Record<string, number>>> = z.record(
  z.string(),
  z.number(),
);

export async function checksumsOf(
  buffers: readonly HeldChunk[],
  files: CheckpointFiles,
): Promise<Readonly<Record<string, number>>> {
  const checksums: [name: string, checksum: number][] = [];
  for (const buffer of buffers) {
    checksums.push([buffer.name, files.checksum(await buffer.read())]);
  }
  return Object.fromEntries(checksums);
}

/** Compares the buffers of all ranks with those of rank 0. `checksums` has those of each rank. */
export function findDifferentBuffers(
  checksums: readonly Readonly<Record<string, number>>[],
): DifferentBuffers | undefined {
  const [saved = {}, ...others] = checksums;
  const differs = (name: string, other: Readonly<Record<string, number>>): boolean =>
    Object.hasOwn(other, name) && other[name] !== saved[name];
  const names = Object.keys(saved).filter((name) => others.some((other) => differs(name, other)));
  const rank = 1 + others.findIndex((other) => names.some((name) => differs(name, other)));
  return names.length === 0 ? undefined : { names, ranks: [0, rank] };
}

const MAX_NAMES = 3;

export function describeDifferentBuffers({ names, ranks }: DifferentBuffers): string {
  const named = names.slice(0, MAX_NAMES).join(', ');
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : '';
  return (
    `the checkpoint has rank 0's values of the buffers ${named}${more}, which differ between ranks ${ranks.join(' and ')}. ` +
    `nn.convertSyncBatchNorm(model) keeps statistics of the batches of all ranks. broadcastBuffers, an option of ddp, zero and fsdp, ` +
    `gives all ranks the buffers of rank 0 at the next forward pass of the planned model`
  );
}
