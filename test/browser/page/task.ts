/** The training that a page is to run. */
export interface Task {
  readonly size: number;
  readonly strategy: 'none' | 'ddp' | 'fsdp' | 'pipeline';
  readonly device: 'auto' | 'webgpu' | 'wasm';
  readonly steps: number;
  /** The folder of the run in the browser's storage. */
  readonly directory?: string;
  /**
   * Saves a checkpoint after each of these steps. `async` means in the background, and `keep` is the number of
   * checkpoints that stay.
   */
  readonly save?: {
    readonly steps: readonly number[];
    readonly async: boolean;
    readonly keep: number;
  };
  /**
   * Resumes from a folder in the browser's storage, from the archive of such a folder, or from files that come with the
   * task.
   */
  readonly resume?:
    | { readonly kind: 'storage' | 'archive'; readonly directory: string }
    | { readonly kind: 'files'; readonly files: readonly EncodedFile[] };
  /** What the page does while its ranks train. */
  readonly act: 'nothing' | 'kill rank 1' | 'terminate' | 'stop' | 'fail rank 1';
}

/** A file as JSON. */
export interface EncodedFile {
  readonly name: string;
  readonly bytes: readonly number[];
}

/** The results of a task. */
export interface TaskReport {
  readonly transport: string;
  readonly transportReason: string;
  readonly device: string;
  readonly deviceReason: string;
  /** The losses of each rank, step by step. */
  readonly losses: readonly (readonly number[])[];
  readonly ends: readonly {
    readonly status: string;
    readonly name: string | undefined;
    readonly message: string | undefined;
    readonly abortedBy: unknown;
  }[];
  /** The report of the run: the number of steps, the last loss, and the HTML. */
  readonly report: {
    readonly steps: number;
    readonly loss: number | undefined;
    readonly html: string;
  };
  /**
   * The checkpoint folders in the run's directory, if the task was to save any. `archive` is the latest one as an
   * archive.
   */
  readonly stored: readonly string[];
  readonly archive: EncodedFile | undefined;
  /** The checkpoints that the page was told about. */
  readonly heard: readonly { readonly step: number; readonly directory: string }[];
  /** The time from the act to the end of the last rank. */
  readonly endedAfterMs: number;
}
