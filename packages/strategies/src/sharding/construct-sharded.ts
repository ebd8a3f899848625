import {
  axisOf,
  ConfigError,
  constructParts,
  currentSession,
  type DType,
  dtypes,
  elementCount,
  type Module,
} from '@shardwise/core';
import { type Cut, type CutRule, cutOf, partBytes } from './cut.ts';

export interface ConstructShardedOptions {
  /** The mesh axis over which the strategy will share out the parameters. Default: `dp`. */
  readonly axis?: string;
  /** As the strategy cuts: `rows` for fsdp, `flat` for zero. Default: `rows`. */
  readonly rule?: CutRule;
}

/**
 * Builds a model of which this rank keeps its parts alone, for `fsdp` and `zero({ stage: 3 })`: no
 * rank holds more than one whole parameter at a time. All ranks must draw the same initial values,
 * so they call `manualSeed` with one seed before.
 */
export function constructSharded<M extends Module>(
  build: () => M,
  { axis = 'dp', rule = 'rows' }: ConstructShardedOptions = {},
): M {
  const { size, rank } = axisOf(currentSession().mesh, axis);
  return constructParts((bytes, { shape, dtype }) => {
    const cut = cutOf(shape, shape.length === 0 ? 'flat' : rule, size);
    return partBytes(bytes, cut, rank, dtypes[dtype].bytes);
  }, build);
}

/** A copy of the part that was kept. Throws ConfigError where the strategy cuts otherwise. */
export function checkInitialPart(
  part: Uint8Array,
  cut: Cut,
  dtype: DType,
  sharded: string,
): Uint8Array<ArrayBuffer> {
  const expected = elementCount(cut.partShape) * dtypes[dtype].bytes;
  if (part.byteLength === expected && sharded === 'parameters') return part.slice();
  throw new ConfigError(
    {
      asked: `parts of ${expected} bytes, cut in ${cut.rule === 'rows' ? 'rows' : 'elements'}, of a parameter of shape [${cut.shape.join(', ')}]`,
      found:
        sharded === 'parameters'
          ? `it was constructed in parts of ${part.byteLength} bytes`
          : 'it was constructed in parts, and the strategy keeps whole parameters',
      todo: "Construct it with rule 'rows' for fsdp and 'flat' for zero({ stage: 3 }), or without constructSharded",
    },
    { shape: cut.shape, expected, found: part.byteLength },
  );
}
