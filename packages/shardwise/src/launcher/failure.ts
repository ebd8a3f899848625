import { stackFrames, userLine } from '@shardwise/core/base';
import { ShardwiseError } from '@shardwise/core/spec';
import { describeFailure, type GenerationFailure } from '../rendezvous/generation.ts';
import { describeError } from '../text/describe-error.ts';
import { displayPath } from '../text/display-path.ts';
import { callAdvice } from '../text/call-advice.ts';
import type { LoadFault } from './load-errors/find-position.ts';
import { excerpt } from './load-errors/source-position.ts';
import type { LaunchResult, RankEnd } from './ranks/rank-handle.ts';

const MAX_CAUSES = 5;
const UNSETTLED_AWAIT = 13;

/** Returns the report of a failure on another host: what failed, then how the ranks of this host ended. */
export function failureElsewhere(
  failure: GenerationFailure,
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
  /** What prevents the script from being loaded. */
  readonly loadFault?: LoadFault | undefined;
  /** What the ranks' records say. */
  readonly verdict?: readonly string[];
}

/**
 * Returns the report of a failure: the stack of the rank that failed first or the place in the script, what the ranks'
 * records say, the rank's last lines, then a line for each other rank.
 */
export function failureReport(
  { outcomes, culprit }: LaunchResult,
  { loadFault, verdict = [] }: FailureFindings = {},
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
    ...(loadFault === undefined ? stackLines(failed.error) : placeLines(failed.error, loadFault)),
    ...(verdict.length > 0 ? ['', ...verdict] : []),
    ...lines,
    ...(alike ? [] : others.map((outcome) => `Rank ${outcome.rank}: ${describeEnd(outcome)}`)),
  ];
}

/** Describes in one line why a rank ended. */
export function describeEnd({ exitCode, error, fate, terminated }: RankEnd): string {
  if (error !== undefined) return describeError(error);
  if (terminated) return 'ended by the launcher';
  if (fate !== undefined) return fate;
  if (exitCode === 0) return 'finished';
  return exitCode === UNSETTLED_AWAIT
    ? `exit code ${exitCode} (a promise it awaited can never settle)`
    : `exit code ${exitCode}`;
}

/**
 * The codes of errors about wrong settings and files. Their messages say everything except the line of the script, so
 * no stack is shown.
 */
const codesWithoutStack: ReadonlySet<string> = new Set(['CONFIG', 'DATA', 'CHECKPOINT']);

/** Returns the lines for a script that cannot be loaded. Its stack contains only frames of Node. */
function placeLines(error: unknown, { position, todo }: LoadFault): readonly string[] {
  const lines: string[] = [];
  let last = error;
  for (let depth = 0; depth < MAX_CAUSES; depth += 1) {
    if (!(last instanceof Error) || !(last.cause instanceof Error)) break;
    last = last.cause;
    lines.push(`  caused by ${describeError(last)}`);
  }
  return [...lines, ...excerpt(position), ...(todo === undefined ? [] : [todo])];
}

/** Returns the stack without its first line, because V8 writes that line before a subclass has set its name. */
function stackLines(error: unknown): readonly string[] {
  const todo = callAdvice(error);
  const advice = todo === undefined ? [] : [todo];
  if (ShardwiseError.isInstance(error) && codesWithoutStack.has(error.code)) {
    const line = error instanceof Error ? userLine(error.stack ?? '') : null;
    return line === null ? advice : [`    at ${line}`, ...advice];
  }
  const lines: string[] = [];
  let current = error;
  for (let depth = 0; current instanceof Error && depth < MAX_CAUSES; depth += 1) {
    if (depth > 0) lines.push(`  caused by ${describeError(current)}`);
    lines.push(...stackFrames(current.stack ?? '').map(({ text }) => text));
    current = current.cause;
  }
  return [...lines, ...advice];
}
