import { crc32 } from 'node:zlib';
import { singleGroup } from '@shardwise/collectives';
import { sectionNames } from '../../checkpoint/format/index-file.ts';
import { type RankContents, rankContentsOf } from '../../checkpoint/save/checkpoint-contents.ts';
import type { Training } from './training.ts';

const ALONE = singleGroup();

/** Returns what this rank has of a training. Chunks and states have the names that rank 0 of a world of one rank gives. */
export function contentsOf(training: Training, step: number): Promise<RankContents> {
  return rankContentsOf({ step, ...training }, ALONE);
}

/** Returns a checksum of the names and places of chunks, in any order. */
export function partsOf(heldChunks: RankContents['heldChunks']): number {
  const places = sectionNames.flatMap((section) =>
    heldChunks[section].map(({ name, dtype, shape, box, start, stop }) =>
      JSON.stringify([section, name, dtype, shape, box, start, stop]),
    ),
  );
  return crc32(places.toSorted().join('\n'));
}
