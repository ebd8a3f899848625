import {
  ConfigError,
  type Extent,
  formatShape,
  type InitialPart,
  sameBlock,
} from '@shardwise/core/extend';
import type { ShardedStates } from './sharded-states.ts';

/** What a strategy has a rank keep of a parameter. */
export interface ExpectedPart {
  readonly extent: Extent;
  readonly sharded: ShardedStates;
}

/** The part that was kept. Throws ConfigError where the strategy cuts otherwise. */
export function checkInitialPart(
  { bytes, extent }: InitialPart,
  { extent: expected, sharded }: ExpectedPart,
): Uint8Array<ArrayBuffer> {
  if (sameExtent(extent, expected) && sharded === 'parameters') return bytes;
  throw new ConfigError(
    {
      asked: `${elementsOf(expected)} of a parameter of shape ${formatShape(expected.shape)}`,
      found:
        sharded === 'parameters'
          ? `it was constructed in parts, of which this rank kept ${elementsOf(extent)}`
          : 'it was constructed in parts, and the strategy keeps whole parameters',
      todo: "Construct it with rule 'rows' for fsdp and 'flat' for zero({ stage: 3 }), with tensorParallel where it is composed with that, or without constructSharded",
    },
    { shape: expected.shape, expected: expected.regions, found: extent.regions },
  );
}

function sameExtent(a: Extent, b: Extent): boolean {
  return (
    a.regions.length === b.regions.length &&
    a.regions.every(({ block, start, stop }, index) => {
      const other = b.regions[index];
      return (
        other !== undefined &&
        sameBlock(block, other.block) &&
        start === other.start &&
        stop === other.stop
      );
    })
  );
}

/** As `elements 0:12 of block [0:4, 2:6]`. */
function elementsOf({ regions }: Extent): string {
  const texts = regions.map(({ block, start, stop }) => {
    const ranges = block.map((range) => `${range.start}:${range.stop}`);
    return `elements ${start}:${stop} of block [${ranges.join(', ')}]`;
  });
  return texts.join(' and ') || 'nothing';
}
