import {
  chunksOf,
  ConfigError,
  formatLayout,
  formatShape,
  type InitialPart,
  type Layout,
  ownPlace,
  type Shape,
} from '@shardwise/core/extend';

/** What a strategy has a rank keep of a parameter. */
export interface ExpectedPart {
  readonly shape: Shape;
  readonly layout: Layout;
  /** Whether each rank keeps the whole parameter. */
  readonly keepsParameter: boolean;
}

/** The part that was kept. Throws ConfigError where the strategy cuts otherwise. */
export function checkInitialPart(
  { bytes, layout }: InitialPart,
  { shape, layout: expected, keepsParameter }: ExpectedPart,
): Uint8Array<ArrayBuffer> {
  const elements = (each: Layout): string => JSON.stringify(chunksOf(shape, each, ownPlace));
  if (elements(layout) === elements(expected) && !keepsParameter) return bytes;
  throw new ConfigError(
    {
      asked: `a parameter of shape ${formatShape(shape)} as ${formatLayout(expected)}`,
      found: !keepsParameter
        ? `it was constructed in parts, of which this rank kept its part of ${formatLayout(layout)}`
        : 'it was constructed in parts, and the strategy keeps whole parameters',
      todo: "Construct it with rule 'rows' for fsdp and 'flat' for zero({ stage: 3 }), with tensorParallel where it is composed with that, or without constructSharded",
    },
    { shape, expected, found: layout },
  );
}
