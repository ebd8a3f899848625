import { elementCount, type Shape } from '@shardwise/core/extend';
import type { CheckpointError } from 'shardwise';
import { cut, type ScatteredTensor, type Segment } from './scattered-tensors.ts';

/** The flat tensors of one rank: one for each group of parameters. */
export type RankGroups = readonly Segment[];

/** What the parameters of a checkpoint are called, and how ranks divide them. */
export interface ZeroLayout {
  readonly stage: 1 | 2 | 3;
  readonly ranks: number;
  /** The parameters of each group, in the order in which they are flattened. */
  readonly groups: readonly ReadonlyMap<string, Shape>[];
  /** The unused elements after each parameter of each group. */
  readonly gaps: readonly (readonly number[])[];
  readonly refuse: (found: string) => CheckpointError;
}

/**
 * Finds each parameter in the flat tensors of all ranks. Throws CheckpointError if their elements are not those that the
 * parameters have.
 */
export function tensorsIn(
  layout: ZeroLayout,
  ranks: readonly RankGroups[],
): ReadonlyMap<string, ScatteredTensor> {
  const found = layout.stage === 3 ? inParts(layout, ranks) : inSlices(layout, ranks);
  return new Map(
    found.map(([name, shape, segments]) => {
      const elements = segments.reduce((sum, each) => sum + each.elements, 0);
      const [{ dtype } = { dtype: 'f32' as const }] = segments;
      const isF32 = segments.every((each) => each.dtype === 'f32');
      if (elements === elementCount(shape) && isF32) return [name, { dtype, shape, segments }];
      throw layout.refuse(
        isF32
          ? `${elements} elements of '${name}', which has ${elementCount(shape)}`
          : `'${name}' in another dtype than f32`,
      );
    }),
  );
}

type Found = readonly [name: string, shape: Shape, segments: readonly Segment[]];

/** Stages 1 and 2: the parameters of a group follow each other, and each rank has a slice of all of them. */
function inSlices({ groups, gaps }: ZeroLayout, ranks: readonly RankGroups[]): readonly Found[] {
  return groups.flatMap((group, index) => {
    const whole = ranks.flatMap((own) => own[index] ?? []);
    let at = 0;
    return [...group].map(([name, shape], place): Found => {
      const elements = elementCount(shape);
      const segments = cut(whole, at, elements);
      at += elements + (gaps[index]?.[place] ?? 0);
      return [name, shape, segments];
    });
  });
}

/** Stage 3: each rank has a part of each parameter. They are equally long, so that the last one may have unused elements. */
function inParts(
  { groups, ranks: count }: ZeroLayout,
  ranks: readonly RankGroups[],
): readonly Found[] {
  let at = 0;
  return groups
    .flatMap((group) => [...group])
    .map(([name, shape]): Found => {
      const elements = elementCount(shape);
      const part = Math.ceil(elements / count);
      const parts = ranks.flatMap((own) => cut(own, at, part));
      at += part;
      return [name, shape, cut(parts, 0, elements)];
    });
}
