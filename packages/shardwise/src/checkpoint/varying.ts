import { currentSession, type DimRange, type SavedType } from '@shardwise/core/extend';
import type { VaryingAxis } from './held-chunk.ts';
import type { StoredTensor } from './state-file.ts';

/** The axes over which a tensor varies as first dims of the tensor of all ranks, and this rank's place there. */
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

/** The shape of the tensor of one rank. */
export function shapeOf({ shape, varying = [] }: StoredTensor): readonly number[] {
  return shape.slice(varying.length);
}

/**
 * Whose values a rank loads, as places among the ranks that saved: of several it loads the mean. Undefined
 * where it can't load any, since each rank of another mesh saved its own.
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

/** As `each of 4 ranks of 'dp' saved its own`. */
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
