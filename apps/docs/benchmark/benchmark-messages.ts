export type DeviceKind = 'wasm' | 'webgpu';

/** The time of a product of two square matrices. */
export interface ProductFigure {
  readonly kind: 'product';
  readonly device: DeviceKind;
  /** The number of rows and columns of the two matrices. */
  readonly size: number;
  /** The best of several runs. */
  readonly milliseconds: number;
}

/** The speed of training the GPT of `bench/workload.ts`. */
export interface TrainingFigure {
  readonly kind: 'training';
  readonly device: DeviceKind;
  readonly ranks: number;
  /** The median time of the steps. */
  readonly stepMs: number;
  readonly tokensPerSecond: number;
}

/** The time of an all-reduce between ranks. */
export interface AllReduceFigure {
  readonly kind: 'allReduce';
  readonly ranks: number;
  readonly bytes: number;
  /** The time of the best round, on the slowest rank. */
  readonly milliseconds: number;
}

export type Figure = ProductFigure | TrainingFigure | AllReduceFigure;

/** A message of the worker or of a rank. */
export type BenchmarkMessage =
  | { readonly kind: 'figure'; readonly figure: Figure }
  | { readonly kind: 'skipped'; readonly reason: string }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'done' };

export function gigaflops({ size, milliseconds }: ProductFigure): number {
  return (2 * size ** 3) / milliseconds / 1e6;
}
