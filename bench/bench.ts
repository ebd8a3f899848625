/** What a benchmark found: rows for people, a record for programs. */
export interface BenchResult {
  readonly rows: readonly (readonly [label: string, value: string])[];
  readonly record: Readonly<Record<string, unknown>>;
}

export interface Bench {
  readonly about: string;
  /** What it may be told on the command line besides --json. */
  readonly flags?: Readonly<Record<string, { readonly type: 'string' | 'boolean' }>>;
  /** `values` of its flags. */
  readonly run: (values: Readonly<Record<string, unknown>>) => Promise<BenchResult>;
}
