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
    return interceptForward(module, (call) => list.push(call));
  });
  try {
    body();
  } finally {
    for (const restore of restores) restore();
  }
  return calls;
}

/** Reports each call of a module's `forward` to `onCall`. Returns a function that ends this. */
function interceptForward(module: Module, onCall: (call: ModuleCall) => void): () => void {
  const forward: unknown = Reflect.get(module, 'forward');
  if (typeof forward !== 'function') return () => {};
  const before = Object.getOwnPropertyDescriptor(module, 'forward');
  const value = (...inputs: unknown[]): unknown => {
    const firstId = newestNodeId();
    const output: unknown = Reflect.apply(forward, module, inputs);
    onCall({ output, firstId, lastId: newestNodeId() });
    return output;
  };
  // The property must not be enumerable: the enumerable fields of a module are searched for members.
  Object.defineProperty(module, 'forward', { value, configurable: true, enumerable: false });
  return () => {
    if (before === undefined) Reflect.deleteProperty(module, 'forward');
    else Object.defineProperty(module, 'forward', before);
  };
}
