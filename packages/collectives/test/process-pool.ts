import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  RankFailure,
  type RankOutcome,
  type RankMessage,
  type RankTask,
} from '@shardwise/testing/ranks';
import { runTask, type RunTaskOptions } from '../../../test/support/run-task.ts';

/** Processes that run an exported function of a module, one call at a time. */
export class ProcessPool {
  readonly #processes: ChildProcess[] = [];
  /** Those whose call has not ended. A later call would get its answer. */
  readonly #busy = new Set<ChildProcess>();

  /** Returns process `rank` of the pool, which has its call or gets the next one, so that a test can kill or stop it. */
  process(rank: number): ChildProcess {
    const known = this.#processes[rank];
    return known === undefined || hasEnded(known) ? this.#start(rank) : known;
  }

  /** Calls the function as each of `size` ranks. Returns how each call ended, in rank order. */
  run(size: number, moduleUrl: URL, options: RunTaskOptions): Promise<readonly RankOutcome[]> {
    return runTask(size, moduleUrl, options, (rank, task) => this.#call(rank, task));
  }

  async end(): Promise<void> {
    const running = this.#processes
      .splice(0)
      .filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
    const ended = running.map((child) => once(child, 'exit'));
    for (const child of running) child.kill('SIGKILL');
    await Promise.all(ended);
  }

  #start(rank: number): ChildProcess {
    const started = fork(new URL('../../../test/support/rank-loop.ts', import.meta.url), {
      serialization: 'advanced',
      execArgv: ['--conditions=@shardwise/source'],
    });
    this.#processes[rank] = started;
    return started;
  }

  #call(rank: number, task: RankTask): Promise<RankOutcome> {
    let child = this.process(rank);
    if (this.#busy.has(child)) {
      child.kill('SIGKILL');
      child = this.#start(rank);
    }
    return new Promise((resolve) => {
      this.#busy.add(child);
      const onMessage = (answer: RankMessage): void => {
        this.#busy.delete(child);
        child.off('exit', onExit);
        resolve(
          answer.status === 'fulfilled'
            ? answer
            : { status: 'rejected', error: new RankFailure(rank, answer.report) },
        );
      };
      const onExit = (code: number | null, signal: string | null): void => {
        this.#busy.delete(child);
        child.off('message', onMessage);
        const message = `The process ended with ${signal ?? `code ${code}`}`;
        const report = { name: 'Error', message, stack: undefined, code: undefined, fields: {} };
        resolve({ status: 'rejected', error: new RankFailure(rank, report) });
      };
      child.once('message', onMessage);
      child.once('exit', onExit);
      child.send(task);
    });
  }
}

/** A process that has ended is still connected for a moment. */
function hasEnded({ connected, exitCode, signalCode }: ChildProcess): boolean {
  return !connected || exitCode !== null || signalCode !== null;
}
