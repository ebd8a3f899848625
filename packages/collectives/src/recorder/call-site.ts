import type { FlightFrame } from './flight-dump.ts';

/** Where a call was made; the text is made when it is asked for. */
export interface CallSite {
  readonly stack: string;
}

/** Frames of these packages lie between the caller and the group, most of all for calls of a graph. */
const MAX_FRAMES = 20;
/** Taking a stack takes 5 to 10 µs, so at this rate less than 2 % of the time. */
const CAPTURE_INTERVAL_MS = 0.5;
const CAPTURES_AT_ONCE = 64;

/**
 * Takes call sites at a bounded cost: all of a training loop's, few of a loop that does nothing but
 * communicate.
 */
export class CallSiteCapture {
  #credit = CAPTURES_AT_ONCE;
  #lastMs = 0;

  /** `nowMs` on the clock of performance.now(). */
  take(nowMs: number): CallSite | undefined {
    const earned = (nowMs - this.#lastMs) / CAPTURE_INTERVAL_MS;
    this.#lastMs = nowMs;
    this.#credit = Math.min(this.#credit + earned, CAPTURES_AT_ONCE);
    if (this.#credit < 1) return undefined;
    this.#credit -= 1;
    const site = { stack: '' };
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = MAX_FRAMES;
    Error.captureStackTrace(site);
    Error.stackTraceLimit = limit;
    return site;
  }
}

/** The folder in which this package and those beside it lie. */
const packages = fileName(new URL('../../../', import.meta.url).href);

/** The frames outside these packages and Node, innermost first. */
export function framesOf(site: CallSite): readonly FlightFrame[] {
  return site.stack.split('\n').flatMap((text) => parseFrame(text) ?? []);
}

function parseFrame(text: string): FlightFrame | undefined {
  const match = /^\s+at (?:async )?(?:(.*) \()?(.+?):(\d+):\d+\)?$/.exec(text);
  const [, name, location = '', line] = match ?? [];
  const filename = fileName(location);
  if (line === undefined || filename.startsWith('node:') || isOurs(filename)) return undefined;
  return { name: name ?? '<anonymous>', filename, line: Number(line) };
}

function isOurs(filename: string): boolean {
  const inside = filename.startsWith(packages) ? filename.slice(packages.length) : '';
  return /^[^/]+\/(src|dist)\//.test(inside) || /\/node_modules\/shardwise\//.test(filename);
}

/** The path of a URL; stacks have either. */
function fileName(location: string): string {
  if (!location.startsWith('file://')) return location;
  try {
    return decodeURIComponent(new URL(location).pathname);
  } catch {
    return location;
  }
}
