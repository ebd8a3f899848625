import { rankState } from '../ambient.ts';

/** Our own frames stand between the user's line and the capture, most of all for modules in modules. */
const MAX_FRAMES = 40;

/** The folder in which this package and those beside it lie; empty where all is one bundle. */
const packages =
  /^(.*\/)[^/]+\/(?:src|dist)\/graph\/[^/]+$/.exec(pathOf(import.meta.url))?.[1] ?? '';

/**
 * Which operation user code called, and where. Taking one costs 5 to 10 µs, so only nodes have one whose
 * failure is found in a run, far from that line; the text is made when it is asked for.
 */
export class CallSite {
  /** As users know it: `crossEntropy`, and not the `gather` inside. */
  readonly operation: string;
  readonly #trace: { readonly stack?: string };

  /** Of the code that calls this, and the lines that called it. */
  constructor(operation: string) {
    this.operation = operation;
    this.#trace = captureStack();
  }

  /** As `path:line:column`; null where it is not known. */
  get line(): string | null {
    return userLine(this.#trace.stack ?? '');
  }
}

/** Whether every node that is made now keeps its call site, and not those alone whose failure only a run finds. */
export function tracesCallSites(): boolean {
  return rankState.tracesCallSites;
}

/** Runs turn it on when they make plans: that takes longer, and their program is new. */
export function traceCallSites(on: boolean): void {
  rankState.tracesCallSites = on;
}

/** Nodes that `body` makes, which no user code asked for, keep none. */
export function withoutCallSites<T>(body: () => T): T {
  const { tracesCallSites: before } = rankState;
  rankState.tracesCallSites = false;
  try {
    return body();
  } finally {
    rankState.tracesCallSites = before;
  }
}

/** As ` at path:line:column`; empty where it is not known. */
export function placeOf(site: CallSite | null): string {
  const line = site?.line ?? null;
  return line === null ? '' : ` at ${line}`;
}

/** The innermost line of a stack outside these packages and the engine, as `path:line:column`. */
export function userLine(stack: string): string | null {
  for (const frame of stack.split('\n')) {
    const line = lineOf(frame);
    if (line !== null) return line;
  }
  return null;
}

function captureStack(): { readonly stack?: string } {
  // V8 makes the text of a captured stack when it is read; elsewhere an error has it at once.
  if (typeof Error.captureStackTrace !== 'function') return new Error('call site');
  const trace: { readonly stack?: string } = {};
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = MAX_FRAMES;
  Error.captureStackTrace(trace);
  Error.stackTraceLimit = limit;
  return trace;
}

/** V8 writes `at name (location)`, other engines `name@location`. */
function lineOf(frame: string): string | null {
  const match = /^(?:\s+at (?:.*\()?(?:async )?|[^@]*@)(.+?):(\d+):(\d+)\)?$/.exec(frame);
  const [, location = '', line, column] = match ?? [];
  if (line === undefined || /^(node:|native|<)/.test(location)) return null;
  const path = pathOf(location);
  return isOurs(path) ? null : `${path}:${line}:${column}`;
}

function isOurs(path: string): boolean {
  const inside = packages !== '' && path.startsWith(packages) ? path.slice(packages.length) : '';
  return /^[^/]+\/(src|dist)\//.test(inside) || /\/node_modules\/shardwise\//.test(path);
}

/** Of a file's URL; any other location as it is. */
function pathOf(location: string): string {
  if (!location.startsWith('file://')) return location;
  try {
    return decodeURIComponent(new URL(location).pathname);
  } catch {
    return location;
  }
}
