import { mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { ConfigError } from '@shardwise/core';
import { removeDumps, runVerdict } from '../blame/run-verdict.ts';
import { failureReport } from '../launcher/failure.ts';
import { launch } from '../launcher/launch.ts';
import type { LaunchResult } from '../launcher/launch-result.ts';
import { StopWord } from '../launcher/stop-word.ts';
import { threadsTransport } from '../launcher/threads-transport.ts';
import { runDirectoryName } from '../run-state/run-directory.ts';
import { displayPath } from '../text/display-path.ts';
import { commandText } from './command-text.ts';
import { findResume } from './find-resume.ts';
import { followInterrupts } from './interrupts.ts';
import type { RunCommandOptions } from './run-options.ts';
import { RunRecord } from './run-record.ts';
import { terminalOutput } from './terminal-output.ts';

/** `shardwise run`; returns the exit code. Throws ShardwiseError before any rank has started. */
export async function runCommand(options: RunCommandOptions): Promise<number> {
  const { worldSize, args } = options;
  const script = await findScript(options.script);
  const resumeDirectory =
    options.resumeDirectory === undefined
      ? undefined
      : await findResume(options.resumeDirectory, script);
  const transport = threadsTransport(worldSize);
  const runDirectory = await makeRunDirectory(options.runDirectory, script);

  await removeDumps(runDirectory);

  const output = terminalOutput(options.plain);
  const record = new RunRecord(
    {
      command: commandText(options),
      script: displayPath(script),
      runDirectory,
      worldSize,
      startMs: Date.now(),
      nodeVersion: process.version,
    },
    output,
  );
  const stop = new StopWord();
  const interrupts = followInterrupts(() => {
    stop.request();
    record.add({ kind: 'stopping' });
  });
  const memory = setInterval(() => record.sampleMemory(), MEMORY_INTERVAL_MS);
  try {
    const result = await launch({
      script,
      args,
      worldSize,
      runDirectory,
      resumeDirectory,
      environment: process.env,
      transport,
      stop,
      signal: interrupts.forced,
      onMessage: (message) => record.add(message),
      onLine: (rank, line, stream) => output.rankLine(rank, line, stream),
    });
    const files = await record.finish(options.report);
    output.end();
    const failed = result.culprit !== undefined;
    const verdict = failed ? await runVerdict(runDirectory) : [];
    if (!failed) await removeDumps(runDirectory);
    for (const line of [...failureReport(result, verdict), ...(failed ? [''] : [])]) {
      process.stderr.write(`${line}\n`);
    }
    const { checkpoint } = record.state;
    const notes: readonly (readonly [string, string | undefined])[] = [
      ['Checkpoint', checkpoint && displayPath(checkpoint.directory)],
      ['Continue', interrupts.count > 0 || failed ? continueText(options, checkpoint) : undefined],
      ['Report', files.report && displayPath(files.report)],
      ['Files', displayPath(runDirectory)],
    ];
    for (const [label, text] of notes) {
      if (text !== undefined) process.stdout.write(`${`${label}:`.padEnd(12)}${text}\n`);
    }
    return exitCodeOf(result, interrupts.exitCode);
  } finally {
    clearInterval(memory);
    interrupts.dispose();
  }
}

const MEMORY_INTERVAL_MS = 1000;

async function findScript(script: string): Promise<string> {
  const path = resolve(script);
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile()) return path;
  throw new ConfigError(
    {
      asked: `Running ${script}`,
      found: found === undefined ? `no such file in ${process.cwd()}` : 'it is no file',
      todo: 'Give the path of a training script',
    },
    { script },
  );
}

async function makeRunDirectory(wanted: string | undefined, script: string): Promise<string> {
  const path = resolve(wanted ?? runDirectoryName(script, new Date()));
  try {
    await mkdir(dirname(path), { recursive: true });
    if (wanted === undefined) return await makeNewDirectory(path);
    await mkdir(path, { recursive: true });
  } catch (cause) {
    throw runDirectoryError(path, cause instanceof Error ? cause.message : String(cause), cause);
  }
  const entries = await readdir(path);
  if (entries.includes('metrics.jsonl')) throw runDirectoryError(path, 'it holds a run already');
  return path;
}

/** Runs that start in the same second get names of their own. */
async function makeNewDirectory(path: string): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    const candidate = attempt === 1 ? path : `${path}-${attempt}`;
    try {
      await mkdir(candidate);
      return candidate;
    } catch (error) {
      const exists = error instanceof Error && 'code' in error && error.code === 'EEXIST';
      if (!exists) throw error;
    }
  }
}

function runDirectoryError(path: string, found: string, cause?: unknown): ConfigError {
  return new ConfigError(
    { asked: `Creating the run directory ${path}`, found, todo: 'Give another one with --run-dir' },
    { path },
    cause === undefined ? {} : { cause },
  );
}

/** Undefined without a checkpoint to continue from. */
function continueText(
  options: RunCommandOptions,
  checkpoint: { readonly directory: string } | undefined,
): string | undefined {
  if (checkpoint === undefined) return undefined;
  const resumeDirectory = displayPath(checkpoint.directory);
  return `npx ${commandText({ ...options, runDirectory: undefined, resumeDirectory })}`;
}

/** A script's own exit code goes through; an interrupted run is not a finished one. */
function exitCodeOf(
  { outcomes, culprit }: LaunchResult,
  interruptCode: number | undefined,
): number {
  const failed = culprit === undefined ? undefined : outcomes[culprit];
  return failed?.exitCode ?? interruptCode ?? 0;
}
