/** What the worker measures, one after the other. */
export interface Measurement {
  readonly device: 'wasm' | 'webgpu';
  /** Rows and columns of the two matrices. */
  readonly size: number;
  /** The best of several runs. */
  readonly milliseconds: number;
  readonly gigaflops: number;
}

export type BenchmarkMessage =
  | { readonly kind: 'measured'; readonly measurement: Measurement }
  | { readonly kind: 'skipped'; readonly device: 'webgpu'; readonly reason: string }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'done' };
