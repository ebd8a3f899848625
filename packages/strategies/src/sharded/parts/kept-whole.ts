import {
  asVarying,
  type KeptWhole,
  type Node,
  noGrad,
  type Place,
  type Shape,
  Tensor,
  withoutValues,
} from '@shardwise/core/extend';

/** The concatenated parts of all ranks, of which a rank keeps more than its own. */
export interface AllParts {
  readonly axis: string;
  readonly place: Place;
  readonly partShape: Shape;
  /** Gathers the parts of all ranks. Shape: part -> padded. */
  readonly gather: (part: Tensor) => Tensor;
}

/** Keeps the whole contents of a parameter. The rank updates its part and gathers those of the others. */
export function keptWhole({ axis, place, partShape, gather }: AllParts): KeptWhole {
  let latest: PartOf | null = null;
  return {
    partShape,
    read(contents) {
      // The expression of an earlier step is not used again, because its value would be that of the earlier contents.
      if (latest !== null && isCurrent(latest, contents)) return latest.part;
      const { node: part } = withoutValues(() =>
        noGrad(() => sliceOf(asVarying(new Tensor(contents), axis), place)),
      );
      latest = { of: contents, part };
      return part;
    },
    write: (part) => gather(new Tensor(part)).node,
  };
}

/** The expression of a part, and the contents that it was made of. */
interface PartOf {
  readonly of: Node;
  readonly part: Node;
}

function isCurrent({ of, part }: PartOf, contents: Node): boolean {
  return of === contents && part.value === null && part.id > contents.updatedAt;
}

/** Returns the part of rank `rank` from the concatenated parts. Shape: padded -> part. */
function sliceOf(padded: Tensor, { size, rank }: Place): Tensor {
  const rows = (padded.shape[0] ?? 0) / size;
  return padded.slice(0, rank * rows, (rank + 1) * rows);
}
