import type { Backend } from '@shardwise/core/spec';

/** One promise of the interface, and how to find out whether a backend keeps it. */
export interface ContractTest<B extends Backend = Backend> {
  readonly title: string;
  /** Rejects where the backend does not keep it. */
  readonly check: (backend: B) => Promise<void>;
  /** Why the promise does not concern a backend; undefined where it does. */
  readonly reasonToSkip?: (backend: B) => string | undefined;
}

/** Why a test of an op does not concern a backend to which the op comes as primitives. */
export function reasonNotNative({ limits }: Backend, op: string): string | undefined {
  const native: ReadonlySet<string> = limits.native;
  return native.has(op) ? undefined : `limits.native has no ${op}`;
}
