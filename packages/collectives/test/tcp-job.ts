import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { startStoreServer } from '@shardwise/collectives/node';
import { RankFailure, type ProcessGroupScenario, type RankOutcome } from '@shardwise/testing/ranks';

export const JOB_SECRET = 'the secret of a test';

/** The task of a process once it has joined. */
export type TcpTask =
  | { readonly mode: 'scenario'; readonly scenario: ProcessGroupScenario }
  /** All-reduces until it fails, and returns the error. */
  | { readonly mode: 'reduce'; readonly elements: number };

export interface TcpRankContext {
  readonly rank: number;
  readonly size: number;
  readonly port: number;
  readonly task: TcpTask;
}

export interface TcpRank {
  readonly process: ChildProcess;
  /** Resolves when the rank has joined and, in mode reduce, has made its first all-reduce. */
  readonly ready: Promise<unknown>;
  readonly outcome: Promise<RankOutcome>;
}

/** The messages of a rank's process. */
export type TcpRankMessage = { readonly ready: true } | { readonly outcome: TcpRankReport };

type TcpRankReport =
  | { readonly status: 'fulfilled'; readonly value: unknown }
  | { readonly status: 'rejected'; readonly report: RankFailure['report'] };

/** Starts ranks as processes on this host, with a store of their own. */
export async function startTcpJob(
  size: number,
  task: TcpTask,
): Promise<AsyncDisposable & { readonly ranks: readonly TcpRank[] }> {
  const server = await startStoreServer({ secret: JOB_SECRET });
  const ranks = Array.from({ length: size }, (_, rank) =>
    startRank({ rank, size, port: server.port, task }),
  );
  return {
    ranks,
    [Symbol.asyncDispose]: async () => {
      const ends = ranks.map(async ({ process: child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const exited = once(child, 'exit');
        child.kill('SIGKILL');
        await exited;
      });
      await Promise.all(ends);
      server.close();
    },
  };
}

function startRank(context: TcpRankContext): TcpRank {
  const child = fork(new URL('./tcp-rank.ts', import.meta.url), {
    execArgv: ['--conditions=@shardwise/source'],
    serialization: 'advanced',
  });
  const ready = Promise.withResolvers<unknown>();
  const outcome = Promise.withResolvers<RankOutcome>();
  child.on('message', (message: TcpRankMessage) => {
    if ('ready' in message) ready.resolve(undefined);
    else if (message.outcome.status === 'fulfilled') outcome.resolve(message.outcome);
    else {
      const error = new RankFailure(context.rank, message.outcome.report);
      outcome.resolve({ status: 'rejected', error });
      ready.reject(error);
    }
  });
  child.on('exit', (code, signal) => {
    const text = `The process ended with ${signal ?? code}`;
    const report = { name: 'Error', message: text, stack: undefined, code: undefined, fields: {} };
    outcome.resolve({ status: 'rejected', error: new RankFailure(context.rank, report) });
  });
  ready.promise.catch(() => {});
  child.send(context);
  return { process: child, ready: ready.promise, outcome: outcome.promise };
}
