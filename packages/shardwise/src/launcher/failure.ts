import { ShardwiseError, stackFrames, userLine } from '@shardwise/core/spec';
import { describeFailure, type RoundFailure } from '../rendezvous/round.ts';
import { displayPath } from '../text/display-path.ts';
import { advice } from './load-errors/advice.ts';
import { excerpt, type SourcePosition } from './load-errors/source-position.ts';
import type { LaunchResult, RankEnd } from './rank-handle.ts';

const MAX_CAUSES = 5;
const UNSETTLED_AWAIT = 13;

/** `TypeError: message`, in one line. */
export function describeError(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.replaceAll(/\s+/g, ' ');
}

/** The report of a failure on another host: what failed, then how the ranks of this host ended. */
export function failureElsewhere(
  failure: RoundFailure,
  result: LaunchResult | undefined,
  verdict: readonly string[] = [],
): readonly string[] {
  return [
    describeFailure(failure),
    ...(verdict.length > 0 ? ['', ...verdict] : []),
    ...(result?.outcomes ?? []).map((outcome) => `Rank ${outcome.rank}: ${describeEnd(outcome)}`),
  ];
}

export interface FailureFindings {
  /** The place in the script for which it cannot be loaded. */
  readonly position?: SourcePosition | undefined;
  /** What the ranks' records say. */
  readonly verdict?: readonly string[];
}

/**
 * The first failing rank's own stack or the place in the script, what the ranks' records say, its
 * last lines, then a line for each other rank.
 */
export function failureReport(
  { outcomes, culprit }: LaunchResult,
  { position, verdict = [] }: FailureFindings = {},
): readonly string[] {
  const failed = outcomes.find(({ rank }) => rank === culprit);
  if (failed === undefined) return [];
  const log = displayPath(failed.logPath);
  const end = describeEnd(failed);
  const others = outcomes.filter(({ rank }) => rank !== culprit);
  const alike =
    failed.error !== undefined &&
    others.length > 0 &&
    others.every((other) => describeEnd(other) === end);
  const who = alike
    ? 'All ranks failed'
    : `Rank ${failed.rank} failed${others.length > 0 ? ' first' : ''}`;
  const lines =
    failed.lastLines.length === 0
      ? []
      : [
          '',
          `The last lines of rank ${failed.rank} (all of them: ${log}):`,
          ...failed.lastLines.map((line) => `  | ${line}`),
        ];
  return [
    `${who}: ${end}`,
    ...(position === undefined ? stackLines(failed.error) : placeLines(failed.error, position)),
    ...(verdict.length > 0 ? ['', ...verdict] : []),
    ...lines,
    ...(alike ? [] : others.map((outcome) => `Rank ${outcome.rank}: ${describeEnd(outcome)}`)),
  ];
}

/** Why a rank ended, in one line. */
export function describeEnd({ exitCode, error, fate, terminated }: RankEnd): string {
  if (error !== undefined) return describeError(error);
  if (terminated) return 'ended by the launcher';
  if (fate !== undefined) return fate;
  if (exitCode === 0) return 'finished';
  return exitCode === UNSETTLED_AWAIT
    ? `exit code ${exitCode} (a promise it awaited can never settle)`
    : `exit code ${exitCode}`;
}

/** Settings and files that are wrong: the message says all that there is to know, but for the line. */
const codesWithoutStack: ReadonlySet<string> = new Set(['CONFIG', 'DATA', 'CHECKPOINT']);

/** The lines for a script that cannot be loaded, as its stack is Node's own. */
function placeLines(error: unknown, position: SourcePosition): readonly string[] {
  const lines: string[] = [];
  let last = error;
  for (let depth = 0; depth < MAX_CAUSES; depth += 1) {
    if (!(last instanceof Error) || !(last.cause instanceof Error)) break;
    last = last.cause;
    lines.push(`  caused by ${describeError(last)}`);
  }
  const todo = last instanceof Error ? advice(last, position) : undefined;
  return [...lines, ...excerpt(position), ...(todo === undefined ? [] : [todo])];
}

/** V8 fixes a stack's first line before a subclass has named itself, so only the frames are used. */
function stackLines(error: unknown): readonly string[] {
  if (ShardwiseError.isInstance(error) && codesWithoutStack.has(error.code)) {
    const line = error instanceof Error ? userLine(error.stack ?? '') : null;
    return line === null ? [] : [`    at ${line}`];
  }
  const lines: string[] = [];
  let current = error;
  for (let depth = 0; current instanceof Error && depth < MAX_CAUSES; depth += 1) {
    if (depth > 0) lines.push(`  caused by ${describeError(current)}`);
    lines.push(...stackFrames(current.stack ?? '').map(({ text }) => text));
    current = current.cause;
  }
  return lines;
}
