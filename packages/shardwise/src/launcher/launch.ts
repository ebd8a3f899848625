import { mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import type { RunMessage } from '../run-state/message.ts';
import type { OutputStream } from '../terminal/run-output.ts';
import { rankEnvironment } from './environment.ts';
import { describeError } from './failure.ts';
import type { LaunchResult } from './launch-result.ts';
import { rankDataMarker } from './rank-data.ts';
import type { RankTransport } from './rank-transport.ts';
import { RankWorker, type RankOutcome } from './rank-worker.ts';
import type { StopWord } from './stop-word.ts';

export interface LaunchOptions {
  /** Absolute path. */
  readonly script: string;
  /** The script's own, from process.argv[2] on. */
  readonly args: readonly string[];
  readonly worldSize: number;
  readonly runDirectory: string;
  readonly resumeDirectory: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
  readonly transport: RankTransport;
  readonly stop: StopWord;
  /** Ends all ranks at once. */
  readonly signal: AbortSignal;
  readonly onMessage: (message: RunMessage) => void;
  readonly onLine: (rank: number, line: string, stream: OutputStream) => void;
  /** How long ranks may take to end after another one failed. Default 2000. */
  readonly graceMs?: number;
}

const GRACE_MS = 2000;

/** Runs a script on every rank, each a worker thread, and waits for all of them. */
export async function launch(options: LaunchOptions): Promise<LaunchResult> {
  const { worldSize, runDirectory, transport, signal } = options;
  const logDirectory = join(runDirectory, 'logs');
  await mkdir(logDirectory, { recursive: true });
  keepGenericWasmWrappers();
  let culprit: number | undefined;
  let blamed = false;
  let grace: NodeJS.Timeout | undefined;
  const workers: RankWorker[] = [];
  const terminateAll = (): Promise<unknown> =>
    Promise.all(workers.map((worker) => worker.terminate()));
  const failures: Promise<unknown>[] = [];

  const onEnd = (
    rank: number,
    { exitCode, error, terminated }: Pick<RankOutcome, 'exitCode' | 'error' | 'terminated'>,
  ): void => {
    options.onMessage({ kind: 'exit', rank, code: exitCode });
    if (exitCode === 0 || terminated) return;
    // A rank that tells the others why it fails may be gone after them.
    if (culprit === undefined || (!blamed && !isAborted(error))) culprit = rank;
    blamed ||= !isAborted(error);
    if (grace !== undefined) return;
    transport.abort(rank, error === undefined ? `exit code ${exitCode}` : describeError(error));
    grace = setTimeout(() => failures.push(terminateAll()), options.graceMs ?? GRACE_MS);
  };

  for (let rank = 0; rank < worldSize; rank += 1) {
    workers.push(
      new RankWorker({
        script: options.script,
        args: options.args,
        environment: rankEnvironment(options.environment, {
          rank,
          worldSize,
          runId: basename(runDirectory),
        }),
        logPath: join(logDirectory, `rank-${rank}.log`),
        data: {
          marker: rankDataMarker,
          rank,
          worldSize,
          runDirectory,
          resumeDirectory: options.resumeDirectory,
          stop: options.stop.memory,
          world: transport.world,
        },
        onMessage: options.onMessage,
        onLine: (line, stream) => options.onLine(rank, line, stream),
        onEnd: (end) => onEnd(rank, end),
      }),
    );
  }
  const force = (): void => void failures.push(terminateAll());
  signal.addEventListener('abort', force, { once: true });
  if (signal.aborted) force();
  try {
    const outcomes = await Promise.all(workers.map(({ outcome }) => outcome));
    return { outcomes, culprit };
  } finally {
    clearTimeout(grace);
    signal.removeEventListener('abort', force);
    await Promise.all(failures);
  }
}

function isAborted(error: unknown): boolean {
  return error instanceof Error && error.name === 'CollectiveAbortedError';
}
