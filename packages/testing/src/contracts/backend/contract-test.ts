import type { Backend } from '@shardwise/core/spec';

/** One promise of the interface, and a test of whether a backend keeps it. */
export interface ContractTest<B extends Backend = Backend> {
  readonly title: string;
  /** Rejects if the backend does not keep the promise. */
  readonly check: (backend: B) => Promise<void>;
  /** Returns why the promise does not apply to a backend. Returns undefined if it applies. */
  readonly reasonToSkip?: (backend: B) => string | undefined;
}

/** Returns why a test of an op does not apply to a backend that gets the op as primitives. */
export function reasonNotNative({ limits }: Backend, op: string): string | undefined {
  const native: ReadonlySet<string> = limits.native;
  return native.has(op) ? undefined : `limits.native has no ${op}`;
}
