/** What the page asks its ranks to train. */
export interface PointTask {
  readonly model: 'sine' | 'spirals';
  readonly strategy: 'ddp' | 'zero-2' | 'fsdp';
}

/** What the model says after some steps. */
export interface PointLook {
  /** Of rank 0: the model's values on the points of `probes`; of the others empty. */
  readonly values: readonly number[];
  /** How many points of this rank the model takes for their own spiral; 0 for a sine. */
  readonly right: number;
}

export const GRID = 32;

/** The rows of a data set, as numbers in a line. */
export interface Rows {
  readonly count: number;
  readonly x: Float32Array<ArrayBuffer>;
  readonly y: Float32Array<ArrayBuffer>;
}

/** 96 points of a sine. */
export function sineRows(): Rows {
  const x = Float32Array.from({ length: 96 }, (_, index) => index / 48 - 1);
  return { count: 96, x, y: x.map((value) => Math.sin(4 * value)) };
}

/** Two spirals of 48 points each, one after the other in turn; y is 0 or 1. */
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

/** Every size-th pair of rows, as both classes are in each pair. */
export function rowsOfRank(rows: Rows, rank: number, size: number): readonly number[] {
  return Array.from({ length: rows.count }, (_, index) => index).filter(
    (index) => Math.floor(index / 2) % size === rank,
  );
}

/** Where the drawing asks for the model's values: 64 points of a line, or a grid over the square. */
export function probes(model: PointTask['model']): Float32Array<ArrayBuffer> {
  if (model === 'sine') return Float32Array.from({ length: 64 }, (_, index) => index / 31.5 - 1);
  return Float32Array.from({ length: 2 * GRID * GRID }, (_, index) => {
    const place = index >> 1;
    const along = index % 2 === 0 ? place % GRID : Math.floor(place / GRID);
    return (2.2 * (along + 0.5)) / GRID - 1.1;
  });
}
