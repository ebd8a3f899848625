/** What the page asks its ranks to train. */
export interface PointTask {
  readonly model: 'sine' | 'spirals';
  readonly strategy: 'ddp' | 'zero-2' | 'fsdp';
}

/** The output of the model after some steps. */
export interface PointLook {
  /** The model's values at the points of `probes` on rank 0. Empty on other ranks. */
  readonly values: readonly number[];
  /** The number of this rank's points that the model assigns to the right spiral. It is 0 for a sine. */
  readonly right: number;
}

export const GRID = 32;

/** The rows of a data set, as numbers one after another. */
export interface Rows {
  readonly count: number;
  readonly x: Float32Array<ArrayBuffer>;
  readonly y: Float32Array<ArrayBuffer>;
}

/** Returns 96 points of a sine. */
export function sineRows(): Rows {
  const x = Float32Array.from({ length: 96 }, (_, index) => index / 48 - 1);
  return { count: 96, x, y: x.map((value) => Math.sin(4 * value)) };
}

/** Returns two spirals of 48 points each, in turn. y is 0 or 1. */
export function spiralRows(): Rows {
  const count = 96;
  const x = new Float32Array(2 * count);
  const y = new Float32Array(count);
  for (let index = 0; index < count; index += 1) {
    const arm = index % 2;
    const t = 0.15 + (0.85 * Math.floor(index / 2)) / (count / 2);
    const angle = 2.4 * Math.PI * t + arm * Math.PI;
    x[2 * index] = t * Math.cos(angle);
    x[2 * index + 1] = t * Math.sin(angle);
    y[index] = arm;
  }
  return { count, x, y };
}

/** Returns the rows of a rank. It gets every size-th pair of rows, because each pair contains both classes. */
export function rowsOfRank(rows: Rows, rank: number, size: number): readonly number[] {
  return Array.from({ length: rows.count }, (_, index) => index).filter(
    (index) => Math.floor(index / 2) % size === rank,
  );
}

/** Returns the points at which the drawing needs the model's values: 64 points of a line, or a grid over the square. */
export function probes(model: PointTask['model']): Float32Array<ArrayBuffer> {
  if (model === 'sine') return Float32Array.from({ length: 64 }, (_, index) => index / 31.5 - 1);
  return Float32Array.from({ length: 2 * GRID * GRID }, (_, index) => {
    const place = index >> 1;
    const along = index % 2 === 0 ? place % GRID : Math.floor(place / GRID);
    return (2.2 * (along + 0.5)) / GRID - 1.1;
  });
}
