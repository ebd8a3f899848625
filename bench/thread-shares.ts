import type { Profiler, Runtime } from 'node:inspector';
import { Session } from 'node:inspector/promises';

/** A sample takes some 20 µs. With a sample every 100 µs, a step takes 1.2 times as long. */
const SAMPLING_MICROSECONDS = 1000;

type Engine = 'products of matrices' | 'attention' | 'loops in machine code' | 'ONNX Runtime';
type Kind = Engine | 'kernels in WebAssembly' | 'garbage collection' | 'JavaScript';

/** The folders and files of engines. Their machine code has no names, and neither has the native code that calls it. */
const engines: readonly (readonly [place: string, Engine])[] = [
  ['/engines/products/', 'products of matrices'],
  ['/engines/attention/', 'attention'],
  ['/engines/loops/', 'loops in machine code'],
  ['/engines/onnx/runtime/session.ts', 'ONNX Runtime'],
];
const names: ReadonlySet<string | undefined> = new Set(engines.map(([, engine]) => engine));

/** What a thread is busy with, as shares of the time in which it is not idle. The largest one comes first. */
export type ThreadShares = ReadonlyMap<Kind, number>;

/** Runs work, and returns its result and what this thread was busy with, by V8's sampling profiler. */
export async function withShares<T>(
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly shares: ThreadShares }> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: SAMPLING_MICROSECONDS });
  await session.post('Profiler.start');
  const result = await work();
  const { profile } = await session.post('Profiler.stop');
  session.disconnect();
  return { result, shares: sharesOf(profile) };
}

/** Returns the share of each kind in the time in which the thread was not idle. */
function sharesOf({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): Map<Kind, number> {
  const kindOfNode = new Map<number, Kind | undefined>();
  // Callers come before the functions that they call.
  for (const { id, callFrame, children = [] } of nodes) {
    const kind = kindOf(callFrame, kindOfNode.get(id));
    for (const called of [id, ...children]) kindOfNode.set(called, kind);
  }
  const microseconds = new Map<Kind, number>();
  for (const [index, node] of samples.entries()) {
    const kind = kindOfNode.get(node);
    if (kind === undefined) continue;
    microseconds.set(kind, (microseconds.get(kind) ?? 0) + (timeDeltas[index] ?? 0));
  }
  const total = [...microseconds.values()].reduce((sum, part) => sum + part, 0);
  const largestFirst = [...microseconds].toSorted(([, a], [, b]) => b - a);
  return new Map(largestFirst.map(([kind, part]) => [kind, part / total]));
}

/**
 * Returns the kind of a call. What an engine calls is the engine's, also another engine and the JavaScript that prepares its
 * calls. Returns undefined if the thread is idle or profiles itself.
 */
function kindOf(
  { functionName, url }: Runtime.CallFrame,
  ofCaller: Kind | undefined,
): Kind | undefined {
  if (functionName === '(idle)' || url === 'node:inspector') return undefined;
  if (functionName === '(garbage collector)') return 'garbage collection';
  if (url.startsWith('wasm:')) return 'kernels in WebAssembly';
  if (names.has(ofCaller)) return ofCaller;
  return engines.find(([place]) => url.includes(place))?.[1] ?? 'JavaScript';
}
