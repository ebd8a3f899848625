import { resolve } from 'node:path';
import { removeDumps, runVerdict } from '../blame/run-verdict.ts';
import { failureElsewhere, failureReport } from '../launcher/failure.ts';
import type { LaunchResult } from '../launcher/ranks/rank-handle.ts';
import { findLoadFault, type LoadFault } from '../launcher/load-errors/find-position.ts';
import type { RunEnd } from '../launcher/run-generations.ts';
import type { RunComparison } from '../plan/compare-run.ts';
import type { WrittenProfile } from '../profile/profile-files.ts';
import { profileLines } from '../profile/profile-lines.ts';
import { paintOf } from '../terminal/paint.ts';
import type { RunState } from '../run-state/run-state.ts';
import type { RunOutput } from '../terminal/run-output.ts';
import { Screen } from '../terminal/screen.ts';
import { displayPath } from '../text/display-path.ts';
import { commandText } from './command-text.ts';
import type { Interrupts } from './interrupts.ts';
import type { RunCommandOptions } from './run-options.ts';
import type { LaunchSettings } from './launch-settings.ts';
import type { RunRecord } from './run-record.ts';

export interface ConcludeOptions {
  readonly run: RunEnd;
  readonly options: RunCommandOptions;
  readonly settings: LaunchSettings;
  /** The record of the run. Undefined on hosts that do not show the run. */
  readonly record: RunRecord | undefined;
  readonly output: RunOutput;
  /** The run's directory on this host. Undefined if no generation has begun. */
  readonly localDirectory: string | undefined;
  readonly interrupts: Interrupts;
  /** Returns the profile that `shardwise profile` has asked for, if there is one. */
  readonly profile: () => WrittenProfile | undefined;
  /** Compares the run with the plan that the user has named, if there is one. */
  readonly compare: ((state: RunState) => RunComparison) | undefined;
}

/** Writes the run's files, tells the user how the run ended and what is left of it, and returns the exit code. */
export async function concludeRun(conclusion: ConcludeOptions): Promise<number> {
  const { run, options, record, output, localDirectory, interrupts } = conclusion;
  const failed = run.end.kind === 'failed';
  const compared = failed ? undefined : record && conclusion.compare?.(record.state);
  const files = await record?.finish(options.report, compared);
  output.end();
  if (compared !== undefined) process.stdout.write(`${compared.text}\n\n`);
  const profile = conclusion.profile();
  if (profile !== undefined) {
    const paint = paintOf(process.stdout);
    const { columns } = new Screen(process.stdout);
    for (const line of profileLines(profile.profiles, { columns, paint }))
      process.stdout.write(`${line}\n`);
  }
  // A run that is profiled ends with its profile.
  const report = profile === undefined ? await reportOf(conclusion) : [];
  for (const line of [...report, ...(report.length > 0 ? [''] : [])]) {
    process.stderr.write(`${line}\n`);
  }
  if (!failed && record !== undefined && localDirectory !== undefined) {
    await removeDumps(localDirectory);
  }
  const checkpoint = record?.state.checkpoint;
  const isEnded = run.end.kind === 'finished' && record?.state.latest === undefined;
  const notes: readonly (readonly [string, string | undefined])[] = [
    [
      'Steps',
      options.resumeDirectory !== undefined && record !== undefined && isEnded
        ? 'none, because the training had ended there. To go on, ask the script for more steps'
        : undefined,
    ],
    ['Checkpoint', checkpoint && displayPath(checkpoint.directory)],
    ['Continue', interrupts.count > 0 || failed ? continueText(options, checkpoint) : undefined],
    ['Profile', profile && displayPath(profile.path)],
    ['Report', files?.report && displayPath(files.report)],
    ['Files', localDirectory && displayPath(localDirectory)],
  ];
  for (const [label, text] of notes) {
    if (text !== undefined) process.stdout.write(`${`${label}:`.padEnd(12)}${text}\n`);
  }
  if (options.profileSteps !== undefined && !failed) return profile === undefined ? 1 : 0;
  return exitCodeOf(run, interrupts.exitCode);
}

async function reportOf({
  run: { result, end, restarts },
  options: { script },
  settings,
  localDirectory,
  interrupts,
}: ConcludeOptions): Promise<readonly string[]> {
  const isInterrupted = end.kind === 'stopped' && interrupts.count > 0;
  if (end.kind === 'finished' || isInterrupted) return [];
  if (end.kind !== 'failed') return [`The run was ended on ${'node' in end ? end.node : 'a host'}`];
  const verdict = localDirectory === undefined ? [] : await runVerdict(localDirectory);
  const { rank } = end.failure;
  const isOwn =
    result?.culprit !== undefined && (result.culprit === rank || settings.hosts === undefined);
  const report =
    isOwn && result !== undefined
      ? failureReport(result, { verdict, loadFault: await loadFaultOf(result, script) })
      : failureElsewhere(end.failure, result, verdict);
  if (end.isCutOff === true) return [...report, ...withoutLeader];
  const { maxRestarts } = settings;
  if (maxRestarts > 0 && end.failure.kind === 'mistake') {
    return [...report, 'Not started again: what fails before the first step would fail again'];
  }
  // A host that has lost the others can't start again, so for it the budget is not used up.
  return maxRestarts === 0 || restarts < maxRestarts
    ? report
    : [...report, `The restart budget is used up: ${maxRestarts} of ${maxRestarts}`];
}

/** What to do on a host that cannot reach the one that leads. It cannot know whether that one is gone. */
const withoutLeader: readonly string[] = [
  '',
  'This host has lost node 0, which leads the run, and no host goes on without it.',
  'If the run goes on there, start this command again, and this host joins it. Otherwise start the run again on',
  'all hosts, and on node 0 with --resume latest, so that it continues from its last checkpoint.',
];

function loadFaultOf(
  { outcomes, culprit }: LaunchResult,
  script: string,
): Promise<LoadFault | undefined> {
  return findLoadFault(outcomes.find(({ rank }) => rank === culprit)?.error, resolve(script));
}

/** Returns the lines that say how to continue the run. Returns undefined if there is no checkpoint to continue from. */
function continueText(
  options: RunCommandOptions,
  checkpoint: { readonly directory: string } | undefined,
): string | undefined {
  if (checkpoint === undefined) return undefined;
  const resumeDirectory = displayPath(checkpoint.directory);
  return `npx ${commandText({ ...options, runDirectory: undefined, resumeDirectory })}`;
}

/** Returns the exit code of the script if it failed. An interrupted run does not count as finished. */
function exitCodeOf({ result, end }: RunEnd, interruptCode: number | undefined): number {
  if (end.kind === 'finished') return interruptCode ?? 0;
  const failed = result?.outcomes.find(({ rank }) => rank === result.culprit);
  return failed?.exitCode ?? interruptCode ?? 1;
}
