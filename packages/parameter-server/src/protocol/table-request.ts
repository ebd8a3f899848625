/** A table as all workers must describe it. */
export interface TableSpec {
  /** The name begins with a letter or a digit, and consists of letters, digits, - and _. */
  readonly name: string;
  readonly rows: number;
  readonly dims: number;
  /** The standard deviation of the initial values, which are normal with mean 0. */
  readonly standardDeviation: number;
  readonly seed: number;
  readonly optimizer: 'SGD' | 'Adagrad';
  /** The term in Adagrad's denominator. */
  readonly epsilon: number;
}

export interface OpenTableRequest {
  readonly kind: 'openTable';
  readonly shard: number;
  readonly table: TableSpec;
}

/** Arrays: numbers of rows (i32), ascending. */
interface PullRowsRequest {
  readonly kind: 'pullRows';
  readonly shard: number;
  readonly name: string;
}

/** Arrays: numbers of rows (i32), ascending, each once, and their gradients (f32). */
export interface PushRowsRequest {
  readonly kind: 'pushRows';
  readonly shard: number;
  readonly name: string;
  /** The sender of the push. Pushes are counted by sender, so that one that arrives twice counts once. */
  readonly client: string;
  readonly sequence: number;
  readonly lr: number;
}

export type TableRequest = OpenTableRequest | PullRowsRequest | PushRowsRequest;
