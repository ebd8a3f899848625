/** What the page is to train, and how. */
export interface Task {
  readonly size: number;
  readonly strategy: 'none' | 'ddp' | 'fsdp' | 'pipeline';
  readonly device: 'auto' | 'webgpu' | 'wasm';
  readonly steps: number;
  /** What the page does while its ranks train. */
  readonly act: 'nothing' | 'kill rank 1' | 'terminate' | 'stop' | 'fail rank 1';
}

/** What came of it. */
export interface TaskReport {
  readonly transport: string;
  readonly transportReason: string;
  readonly device: string;
  readonly deviceReason: string;
  /** Of each step, by rank. */
  readonly losses: readonly (readonly number[])[];
  readonly ends: readonly {
    readonly status: string;
    readonly name: string | undefined;
    readonly message: string | undefined;
    readonly abortedBy: unknown;
  }[];
  /** Steps and the last loss of the report, and its HTML. */
  readonly report: {
    readonly steps: number;
    readonly loss: number | undefined;
    readonly html: string;
  };
  /** From the act to the end of the last rank. */
  readonly endedAfterMs: number;
}
