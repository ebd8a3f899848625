/** What a benchmark found: rows for people, a record for programs. */
export interface BenchResult {
  readonly rows: readonly (readonly [label: string, value: string])[];
  readonly record: Readonly<Record<string, unknown>>;
}

export interface BenchOptions {
  /** Rounds that count, where contestants alternate; default: as the benchmark says. */
  readonly rounds?: number;
}

export interface Bench {
  readonly about: string;
  readonly run: (options: BenchOptions) => Promise<BenchResult>;
}
