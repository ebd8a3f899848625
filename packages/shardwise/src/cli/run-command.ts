import { mkdir } from 'node:fs/promises';
import { basename } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { removeDumps, removeDumpsOf } from '../blame/run-verdict.ts';
import { deviceVariable } from '../environment/device-name.ts';
import { withoutRankVariables } from '../environment/without-rank-variables.ts';
import { type GenerationStart, runGenerations } from '../launcher/run-generations.ts';
import { describeTransport } from '../launcher/transports/transport-choice.ts';
import type { RunComparison } from '../plan/compare-run.ts';
import type { WrittenProfile } from '../profile/profile-files.ts';
import { profileVariable } from '../profile/profile-options.ts';
import {
  describeFailure,
  firstRankOf,
  type Generation,
  type GenerationEnd,
  worldSizeOf,
} from '../rendezvous/generation.ts';
import type { RunMessage } from '../run-state/run-message.ts';
import type { RunState } from '../run-state/run-state.ts';
import { loadSinks } from '../sinks/load-sinks.ts';
import { LiveOutput } from '../terminal/live-output.ts';
import { paintOf } from '../terminal/paint.ts';
import { PlainOutput } from '../terminal/plain-output.ts';
import { type RunOutput, stoppingNotice } from '../terminal/run-output.ts';
import { describeError } from '../text/describe-error.ts';
import { LivePublisher } from '../top/live-publisher.ts';
import type { RunEnding } from '../top/take-snapshot.ts';
import { displayPath } from '../text/display-path.ts';
import { commandText } from './command-text.ts';
import { checkServers, serverFacts, startServers } from './run-servers.ts';
import {
  checkpointPlace,
  noteCheckpointPlace,
  requireOwnCheckpoints,
} from './checkpoint-directory.ts';
import { concludeRun } from './conclude-run.ts';
import { findResume } from './find-resume.ts';
import { findScript } from './find-script.ts';
import { followInterrupts } from './interrupts.ts';
import { launchSettings } from './launch-settings.ts';
import { openRun } from './open-run.ts';
import { recordingSink, relayingSink, type MessageSink } from './message-sink.ts';
import { describeGeneration } from './generation-notice.ts';
import { makeRunDirectory } from './run-directory.ts';
import type { RunCommandOptions } from './run-options.ts';
import { RunRecord } from './run-record.ts';

const MEMORY_INTERVAL_MS = 1000;

/** Runs `shardwise run` and returns the exit code. Throws ShardwiseError before any rank has started. */
export async function runCommand(options: RunCommandOptions): Promise<number> {
  const script = await findScript(options.script, `Running ${options.script}`);
  const checkpointDirectory = checkpointPlace(options.checkpointDirectory);
  const resume =
    options.resumeDirectory === undefined
      ? undefined
      : await findResume(options.resumeDirectory, script, {
          hasServers: (options.servers ?? 0) > 0,
          checkpointDirectory,
        });
  const settings = await launchSettings(options, process.env);
  checkRanks(settings.nproc);
  checkServers(options, settings);
  const sinks = await loadSinks(options.metrics);
  const compare = options.plan === undefined ? undefined : await comparisonWith(options.plan);
  const output = terminalOutput(options.plain);
  const { rendezvous, store, runDirectory } = await openRun({
    settings,
    resumeDirectory: resume?.checkpoint,
    checkpointDirectory,
    transport: options.transport,
    minRanks: options.minNproc,
    makeRunDirectory: async () => {
      await requireOwnCheckpoints(checkpointDirectory, resume?.checkpoint);
      const made = await makeRunDirectory(options.runDirectory, script);
      await noteCheckpointPlace(made, checkpointDirectory);
      return made;
    },
    onNotice: (text) => output.notice(text),
  });
  if (runDirectory !== undefined) await removeDumps(runDirectory);
  const head = {
    command: commandText(options),
    script: displayPath(script),
    worldSize: settings.nproc,
    startMs: Date.now(),
    engine: `Node ${process.version}`,
  };
  let profile: WrittenProfile | undefined;
  const profiled = new AbortController();
  const onProfile = (written: WrittenProfile): void => {
    profile = written;
    profiled.abort();
  };
  const record =
    runDirectory === undefined
      ? undefined
      : new RunRecord(
          { ...head, runDirectory },
          output,
          sinks.map((open) => open(runDirectory, (text) => output.notice(text))),
          options.profileSteps === undefined ? undefined : onProfile,
        );
  const servers = await startServers({ options, runDirectory, resume, output });
  const live =
    record === undefined || runDirectory === undefined
      ? undefined
      : new LivePublisher({
          runDirectory,
          run: record,
          store,
          onNotice: (text) => output.notice(text),
        });
  let sink: MessageSink | undefined;
  const add = (message: RunMessage): void => (sink ?? record)?.add(message);
  const stop = new AbortController();
  const interrupts = followInterrupts(() => {
    stop.abort();
    if (record === undefined) output.notice(stoppingNotice);
    add({ kind: 'stopping' });
  });
  const memory = setInterval(() => record?.sampleMemory(), MEMORY_INTERVAL_MS);
  let localDirectory = runDirectory;

  const onGeneration = async (start: GenerationStart): Promise<() => Promise<void>> => {
    const { generation, choice } = start;
    localDirectory = generation.runDirectory;
    await mkdir(localDirectory, { recursive: true });
    await removeDumpsOf(localDirectory, dumpsOf(generation));
    const notice = describeGeneration(start, settings.maxRestarts);
    if (notice !== undefined) output.notice(notice.text);
    sink =
      record !== undefined || store === undefined
        ? record &&
          recordingSink({
            record,
            generation,
            // Launchers of ranks that go on tell each other what the ranks say.
            store: options.minNproc === undefined ? store : undefined,
            isQuiet: (place) => rendezvous.isQuiet(generation, place),
          })
        : options.minNproc === undefined
          ? relayingSink(generation, store)
          : undefined;
    record?.add({
      kind: 'generation',
      epoch: generation.epoch,
      worldSize: worldSizeOf(generation),
      transport: describeTransport(choice),
      hosts: generation.nodes.map(({ name, ranks }) => ({ name, ranks })),
      reason: notice?.reason,
      resumeDirectory: generation.resumeDirectory,
    });
    return async () => sink?.close();
  };
  try {
    const run = await runGenerations({
      rendezvous,
      script,
      args: options.args,
      form: settings.form,
      isElastic:
        settings.hosts !== undefined && settings.hosts.nodes.min < settings.hosts.nodes.max,
      members:
        options.minNproc === undefined
          ? undefined
          : { min: options.minNproc, store, onNotice: (text) => output.notice(text) },
      transportTimeoutMs: options.transportTimeoutMs,
      runId: settings.hosts?.jobId ?? basename(runDirectory ?? ''),
      maxRestarts: settings.maxRestarts,
      environment: {
        ...withoutRankVariables(process.env),
        ...(options.device !== undefined && { [deviceVariable]: options.device }),
        ...(options.profileSteps !== undefined && {
          [profileVariable]: options.profileSteps.join('-'),
        }),
      },
      servers: servers?.data,
      checkpointDirectory,
      apart:
        options.workerRestarts === undefined
          ? undefined
          : {
              restarts: options.workerRestarts,
              onRestart: (rank, reason) =>
                output.notice(`Worker ${rank} starts again, and the others go on: ${reason}`),
            },
      stop: stop.signal,
      signal: AbortSignal.any([interrupts.forced, profiled.signal]),
      onGeneration,
      onMessage: add,
      onLine: (rank, line, stream) => output.rankLine(rank, line, stream),
    });
    record?.settle(run.end);
    await live?.end(endingOf(run.end, interrupts.count > 0));
    await rendezvous.close();
    record?.add({ kind: 'facts', rank: 0, facts: serverFacts((await servers?.stop()) ?? []) });
    return await concludeRun({
      run,
      options,
      settings,
      record,
      output,
      localDirectory,
      interrupts,
      profile: () => profile,
      compare,
    });
  } catch (error) {
    await live?.end({ phase: 'failed', reason: describeError(error) });
    await rendezvous.close();
    throw error;
  } finally {
    await servers?.stop();
    clearInterval(memory);
    interrupts.dispose();
  }
}

/** Reads a plan, and returns what compares a run with it. Few runs need the planner. Throws ConfigError. */
async function comparisonWith(path: string): Promise<(state: RunState) => RunComparison> {
  const [{ openPlan }, { compareRun }] = await Promise.all([
    import('@shardwise/planner/node'),
    import('../plan/compare-run.ts'),
  ]);
  const planned = await openPlan(path);
  return (state) => compareRun(planned, state);
}

/** How `shardwise top` names the end of a run. A run that the user has ended is not finished. */
function endingOf(end: GenerationEnd, isInterrupted: boolean): RunEnding {
  if (end.kind === 'failed') return { phase: 'failed', reason: describeFailure(end.failure) };
  return { phase: end.kind === 'finished' && !isInterrupted ? 'finished' : 'stopped' };
}

/**
 * Returns which dumps this host removes before a generation: those of its own ranks and, on the first host, also those of
 * ranks that no longer exist.
 */
function dumpsOf(generation: Generation): (rank: number) => boolean {
  const { nodes, nodeRank } = generation;
  const first = firstRankOf(generation, nodeRank);
  const end = first + (nodes[nodeRank]?.ranks ?? 0);
  const worldSize = worldSizeOf(generation);
  return (rank) => (rank >= first && rank < end) || (nodeRank === 0 && rank >= worldSize);
}

/** Throws ConfigError for a number of ranks that cannot run, before a directory is made for the run. */
function checkRanks(nproc: number): void {
  createThreadsWorld({ size: nproc, arenaBytes: 1 });
}

/** Returns the live block if the terminal can show it, and otherwise plain lines. */
function terminalOutput(plain: boolean): RunOutput {
  const { stdout } = process;
  if (plain || !stdout.isTTY || process.env['TERM'] === 'dumb') return new PlainOutput(process);
  return new LiveOutput(stdout, paintOf(stdout));
}
