import { newestNodeId } from '../../graph/create-node.ts';
import type { Module } from '../module/module.ts';

/** One forward pass of a module: what it returned, and the nodes that were made in it. */
export interface ModuleCall {
  readonly output: unknown;
  /** The ids of the nodes of the call are above `firstId`, and up to `lastId`. */
  readonly firstId: number;
  readonly lastId: number;
}

/** Runs `body`, and records the calls of `forward` of each module in it. */
export function recordCalls(
  modules: readonly Module[],
  body: () => void,
): ReadonlyMap<Module, readonly ModuleCall[]> {
  const calls = new Map<Module, ModuleCall[]>();
  const restores = modules.map((module) => {
    const list: ModuleCall[] = [];
    calls.set(module, list);
    return wrapForward(module, (call) => {
      const firstId = newestNodeId();
      const output = call();
      list.push({ output, firstId, lastId: newestNodeId() });
      return output;
    });
  });
  try {
    body();
  } finally {
    for (const restore of restores) restore();
  }
  return calls;
}

/** Calls `around` for each call of a module's `forward`, and with it what makes the call. Returns what ends this. */
export function wrapForward(
  module: Module,
  around: (call: () => unknown, inputs: readonly unknown[]) => unknown,
): () => void {
  const forward: unknown = Reflect.get(module, 'forward');
  if (typeof forward !== 'function') return () => {};
  const before = Object.getOwnPropertyDescriptor(module, 'forward');
  const value = (...inputs: unknown[]): unknown =>
    around(() => Reflect.apply(forward, module, inputs), inputs);
  // The property must not be enumerable: the enumerable fields of a module are searched for members.
  Object.defineProperty(module, 'forward', { value, configurable: true, enumerable: false });
  return () => {
    // Others, such as hooks, may have wrapped it since. Then it stays, and goes on to call `around`.
    if (Reflect.get(module, 'forward') !== value) return;
    if (before === undefined) Reflect.deleteProperty(module, 'forward');
    else Object.defineProperty(module, 'forward', before);
  };
}
