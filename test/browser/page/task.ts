/** What the page is to train, and how. */
export interface Task {
  readonly size: number;
  readonly strategy: 'none' | 'ddp' | 'fsdp' | 'pipeline';
  readonly device: 'auto' | 'webgpu' | 'wasm';
  readonly steps: number;
  /** The folder of the run in the browser's storage. */
  readonly directory?: string;
  /** Saves a checkpoint after each of these steps, in the background or not, and leaves so many. */
  readonly save?: {
    readonly steps: readonly number[];
    readonly async: boolean;
    readonly keep: number;
  };
  /** Goes on from a folder of the browser's storage, from the archive of one, or from files that come with the task. */
  readonly resume?:
    | { readonly kind: 'storage' | 'archive'; readonly directory: string }
    | { readonly kind: 'files'; readonly files: readonly EncodedFile[] };
  /** What the page does while its ranks train. */
  readonly act: 'nothing' | 'kill rank 1' | 'terminate' | 'stop' | 'fail rank 1';
}

/** A file in JSON. */
export interface EncodedFile {
  readonly name: string;
  readonly bytes: readonly number[];
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
  /** Folders of the checkpoints in the run's directory, and the latest one as an archive, where the task was to save any. */
  readonly stored: readonly string[];
  readonly archive: EncodedFile | undefined;
  /** Checkpoints that the page heard of. */
  readonly heard: readonly { readonly step: number; readonly directory: string }[];
  /** From the act to the end of the last rank. */
  readonly endedAfterMs: number;
}
