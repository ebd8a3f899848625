/** The result of a benchmark: rows for people, and a record for programs. */
export interface BenchResult {
  readonly rows: readonly (readonly [label: string, value: string])[];
  readonly record: Readonly<Record<string, unknown>>;
}

export interface Bench {
  readonly about: string;
  /** The flags of the command line besides --json. */
  readonly flags?: Readonly<Record<string, { readonly type: 'string' | 'boolean' }>>;
  /** Runs the benchmark. `values` contains the values of its flags. */
  readonly run: (values: Readonly<Record<string, unknown>>) => Promise<BenchResult>;
}
