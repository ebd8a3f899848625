import { CollectiveMismatchError, type ProcessGroup } from '@shardwise/core/extend';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** By this word, ranks recognise that the others have called the same function. */
const MARK = 0x6d657472;
const MAX_BYTES = 1024 * 1024;

/**
 * Gives each rank's text to every rank, in rank order. It is a collective. Throws CollectiveMismatchError if another
 * rank has called something else, or if a text is longer than 1 MiB.
 */
export async function gatherTexts(group: ProcessGroup, text: string): Promise<readonly string[]> {
  const encoded = encoder.encode(text);
  const heads = new Int32Array(2 * group.size);
  await group.allGather(
    { bytes: new Uint8Array(Int32Array.of(MARK, encoded.byteLength).buffer), dtype: 'i32' },
    { bytes: new Uint8Array(heads.buffer), dtype: 'i32' },
  );
  const lengths = Array.from({ length: group.size }, (_, rank) => {
    const [first, length = 0] = heads.subarray(2 * rank);
    if (first === MARK && length >= 0 && length <= MAX_BYTES) return length;
    throw new CollectiveMismatchError(
      {
        asked: 'to gather the texts of all ranks',
        found: `rank ${rank} has sent something else, or ${length} bytes`,
        todo: 'Call the same functions in the same order on all ranks',
      },
      { rank },
    );
  });
  const longest = Math.max(...lengths);
  const own = new Uint8Array(longest);
  own.set(encoded);
  const all = new Uint8Array(longest * group.size);
  await group.allGather({ bytes: own, dtype: 'u8' }, { bytes: all, dtype: 'u8' });
  return lengths.map((length, rank) =>
    decoder.decode(all.subarray(rank * longest, rank * longest + length)),
  );
}
