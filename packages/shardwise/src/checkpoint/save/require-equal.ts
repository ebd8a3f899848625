import {
  CheckpointError,
  chunkKey,
  type HeldChunk,
  onAllRanks,
  type ProcessGroup,
  type TensorChunk,
} from '@shardwise/core/extend';
import { z } from 'zod';
import type { CheckpointFiles } from '../places/checkpoint-files.ts';

const MAX_NAMES = 10;

/** What to do if a rank fails to save. */
export const saveAgain =
  'See to the cause and save again; the checkpoint before this one is still in force';

/**
 * Compares checksums of chunks that several ranks hold, because only one rank writes each element. It is a collective.
 * Throws CheckpointError on all ranks alike. It names the tensors and the ranks that differ.
 */
export async function requireEqual(
  group: ProcessGroup,
  asked: string,
  files: CheckpointFiles,
  held: readonly (readonly TensorChunk[])[],
  heldChunks: readonly HeldChunk[],
): Promise<void> {
  const holders = new Map<string, number>();
  for (const chunk of held.flat()) {
    const key = chunkKey(chunk);
    holders.set(key, (holders.get(key) ?? 0) + 1);
  }
  const shared = (chunk: TensorChunk): boolean => (holders.get(chunkKey(chunk)) ?? 0) > 1;
  if (![...holders.values()].some((count) => count > 1)) return;
  const checksums = await onAllRanks(
    group,
    { asked, todo: saveAgain },
    z.array(z.number()),
    async () => {
      const own: number[] = [];
      for (const each of heldChunks.filter(shared)) own.push(files.checksum(await each.read()));
      return own;
    },
  );
  const first = new Map<string, { readonly rank: number; readonly checksum: number | undefined }>();
  const different = new Map<string, { readonly rank: number; readonly other: number }>();
  for (const [rank, chunks] of held.entries()) {
    for (const [index, chunk] of chunks.filter(shared).entries()) {
      const key = chunkKey(chunk);
      const checksum = checksums[rank]?.[index];
      const known = first.get(key);
      if (known === undefined) first.set(key, { rank, checksum });
      else if (known.checksum !== checksum && !different.has(chunk.name)) {
        different.set(chunk.name, { rank: known.rank, other: rank });
      }
    }
  }
  const [pair] = different.values();
  if (pair === undefined) return;
  const names = [...different.keys()];
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} others` : '';
  throw new CheckpointError(
    {
      asked,
      found: `ranks that are to have the same values have others, as ranks ${pair.rank} and ${pair.other}, of ${names.slice(0, MAX_NAMES).join(', ')}${more}`,
      todo: "Make them equal before (broadcast or average them; replicate() of a DataParallel), or say that each rank has its own: tensor.markVarying(['dp'])",
    },
    { tensors: names, ranks: [pair.rank, pair.other] },
  );
}
