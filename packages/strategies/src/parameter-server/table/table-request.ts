/** A table as all workers describe it. */
export interface TableSpec {
  /** It begins with a letter or a digit, and has letters, digits, - and _. */
  readonly name: string;
  readonly rows: number;
  readonly dims: number;
  /** Rows are normal with this deviation and mean 0, by the seed. */
  readonly standardDeviation: number;
  readonly seed: number;
  readonly optimizer: 'SGD' | 'Adagrad';
  /** Adagrad's term in the denominator. */
  readonly epsilon: number;
}

export interface OpenTableRequest {
  readonly kind: 'openTable';
  readonly shard: number;
  readonly table: TableSpec;
}

/** Arrays: numbers of rows (i32), ascending. */
export interface PullRowsRequest {
  readonly kind: 'pullRows';
  readonly shard: number;
  readonly name: string;
}

/** Arrays: numbers of rows (i32), ascending, each once, and their gradients (f32). */
export interface PushRowsRequest {
  readonly kind: 'pushRows';
  readonly shard: number;
  readonly name: string;
  /** Who counts its pushes: one that comes twice counts once. */
  readonly client: string;
  readonly sequence: number;
  readonly lr: number;
}

export type TableRequest = OpenTableRequest | PullRowsRequest | PushRowsRequest;
