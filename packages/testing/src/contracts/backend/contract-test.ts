import type { Backend } from '@shardwise/core/spec';

/** One promise of the interface, and how to find out whether a backend keeps it. */
export interface ContractTest<B extends Backend = Backend> {
  readonly title: string;
  /** Rejects where the backend does not keep it. */
  readonly check: (backend: B) => Promise<void>;
  /** Why the promise does not concern a backend; undefined where it does. */
  readonly reasonToSkip?: (backend: B) => string | undefined;
}
