import {
  currentSession,
  type DimRange,
  type SavedType,
  type VaryingAxis,
} from '@shardwise/core/extend';
import type { StoredTensor } from './index-file.ts';

/**
 * Returns the axes over which a tensor varies, which are the first dims of the tensor of all ranks together, and the
 * place of this rank along them.
 */
export function placeOver(varyingOver: readonly string[] = []): {
  readonly varying: readonly VaryingAxis[];
  readonly place: readonly DimRange[];
} {
  const { mesh } = currentSession();
  const groups = varyingOver.map((axis) => ({ axis, group: mesh.group(axis) }));
  return {
    varying: groups.map(({ axis, group: { size } }) => ({ axis, size })),
    place: groups.map(({ group: { rank } }) => ({ start: rank, stop: rank + 1 })),
  };
}

/** Returns the shape of one rank's tensor. */
export function shapeOf({ shape, varying = [] }: StoredTensor): readonly number[] {
  return shape.slice(varying.length);
}

/**
 * Returns the ranks whose values a rank loads, as places in the varying dims. If it returns several places, their mean
 * is to be loaded. Returns undefined if this rank can't load any value, because each rank of a different mesh saved its
 * own.
 */
export function placesToLoad(
  { varying = [], dtype }: StoredTensor,
  { layout, otherwise }: Pick<SavedType, 'layout' | 'otherwise'>,
): readonly (readonly DimRange[])[] | undefined {
  if (varying.length === 0) return [[]];
  const own = placeOver(layout.varying);
  if (JSON.stringify(own.varying) === JSON.stringify(varying)) return [own.place];
  return otherwise === 'mean' && dtype === 'f32' ? allPlaces(varying) : undefined;
}

/** Describes who saved a tensor, such as `each of 4 ranks of 'dp' saved its own`. */
export function describeVarying({ varying = [] }: StoredTensor): string {
  const ranks = varying.reduce((product, { size }) => product * size, 1);
  return `each of ${ranks} ranks of '${varying.map(({ axis }) => axis).join("' × '")}' saved its own`;
}

function allPlaces(varying: readonly VaryingAxis[]): (readonly DimRange[])[] {
  return varying.reduce<(readonly DimRange[])[]>(
    (places, { size }) =>
      places.flatMap((place) =>
        Array.from({ length: size }, (_, start) => [...place, { start, stop: start + 1 }]),
      ),
    [[]],
  );
}
