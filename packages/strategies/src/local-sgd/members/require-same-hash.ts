import { CollectiveMismatchError, type ProcessGroup } from '@shardwise/core/extend';

/** What ranks must have alike, as an error says it. */
export interface Alike {
  readonly asked: string;
  /** What a rank has that differs, such as `another one`. */
  readonly other: string;
  readonly todo: string;
}

/** Throws CollectiveMismatchError on every rank if one has another hash than rank 0. It is a collective. */
export async function requireSameHash(
  group: ProcessGroup,
  hash: number,
  { asked, other, todo }: Alike,
): Promise<void> {
  const hashes = new Int32Array(group.size);
  await group.allGather(
    { bytes: new Uint8Array(Int32Array.of(hash).buffer), dtype: 'i32' },
    { bytes: new Uint8Array(hashes.buffer), dtype: 'i32' },
  );
  const rank = hashes.findIndex((each) => each !== hashes[0]);
  if (rank < 0) return;
  throw new CollectiveMismatchError(
    { asked, found: `rank ${rank} has ${other} than rank 0`, todo },
    { rank },
  );
}
